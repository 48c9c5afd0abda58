"""Statements and names of the facts of stored data, by flavor and version."""

from typing import Final

from dbops.engine.flavors.base import Flavor

#: Start-up settings that the data depends on. A server lacks those of other versions.
SETTINGS: Final = (
    "aria_block_size",
    "innodb_checksum_algorithm",
    "innodb_data_file_path",
    "innodb_page_size",
    "innodb_undo_tablespaces",
    "lower_case_table_names",
)
#: Settings that encrypt more than tables, with the name of what they encrypt.
ENCRYPTS: Final = {
    "aria_encrypt_tables": "Aria tables",
    "binlog_encryption": "binary log",
    "encrypt_binlog": "binary log",
    "innodb_encrypt_log": "redo log",
    "innodb_redo_log_encrypt": "redo log",
    "innodb_undo_log_encrypt": "undo log",
}
OTHERS: Final = ("plugin_dir", "time_zone")
#: Maximum number of names that a list of facts has.
MAX_NAMES: Final = 50


def variables() -> tuple[str, ...]:
    """Return the names of the global variables to read."""
    return (*SETTINGS, *ENCRYPTS, *OTHERS)


def outside_files(flavor: Flavor) -> str:
    """Return the statement whose column ``path`` has the tablespace files with an absolute path or one that leaves the directory."""
    if flavor.name == "mysql":
        table, column = ("INNODB_DATAFILES" if flavor.version >= (8, 0, 0) else "INNODB_SYS_DATAFILES"), "PATH"
    elif flavor.version >= (10, 6, 0):
        table, column = "INNODB_SYS_TABLESPACES", "FILENAME"
    else:
        table, column = "INNODB_SYS_DATAFILES", "PATH"
    return (
        f"SELECT {column} AS path FROM information_schema.{table}"  # noqa: S608 - constants
        f" WHERE {column} LIKE '/%' OR {column} LIKE '%../%' LIMIT 1000"
    )


def encrypted_spaces(flavor: Flavor) -> str:
    """Return the statement whose column ``spaces`` counts the encrypted tablespaces."""
    if flavor.name == "mariadb":
        return "SELECT COUNT(*) AS spaces FROM information_schema.INNODB_TABLESPACES_ENCRYPTION WHERE ENCRYPTION_SCHEME <> 0"
    if flavor.version >= (8, 0, 0):
        return "SELECT COUNT(*) AS spaces FROM information_schema.INNODB_TABLESPACES WHERE ENCRYPTION = 'Y'"
    return "SELECT COUNT(*) AS spaces FROM information_schema.TABLES WHERE CREATE_OPTIONS LIKE '%ENCRYPTION=_Y%'"


LOADED_PLUGINS: Final = (
    "SELECT PLUGIN_NAME AS name, PLUGIN_LIBRARY AS `library`, PLUGIN_TYPE AS kind FROM information_schema.PLUGINS"
    " WHERE PLUGIN_STATUS = 'ACTIVE' AND PLUGIN_LIBRARY IS NOT NULL"
)
INSTALLED_PLUGINS: Final = "SELECT name FROM mysql.plugin"
ACCOUNT_PLUGINS: Final = "SELECT DISTINCT plugin FROM mysql.user WHERE plugin <> ''"
COMPONENTS: Final = "SELECT component_urn AS urn FROM mysql.component"
TIME_ZONES: Final = "SELECT EXISTS (SELECT 1 FROM mysql.time_zone_name) AS found"
