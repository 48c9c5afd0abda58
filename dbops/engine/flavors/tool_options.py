"""What a backup tool gets of the server's own option file, and nothing else.

Both tools read the server's groups and ignore unknown names there (``--help``), but obey those that they know in any group:
``databases-exclude`` leaves out data, ``host`` names another server. The host writes the values of these names alone into the
run's option file (``scripts/tool_options.sh``). mariadb-backup 10.5 and newer asks the server for most of them; the option file
then agrees. Encryption: mariadb-backup loads the server's active plugin and asks for its settings; XtraBackup takes a keyring
plugin's from the file.
"""

from dataclasses import dataclass

from dbops.engine.flavors.base import Flavor, Version
from dbops.engine.flavors.versions import dotted, series

MARIADB, MYSQL = "mariadb", "mysql"
BOTH = (MARIADB, MYSQL)


@dataclass(frozen=True, slots=True)
class ToolOption:
    """A server option that a backup tool needs.

    ``name`` has underscores; a final ``*`` matches any rest. ``until``: the first server version without it, by flavor.
    """

    name: str
    reason: str
    flavors: tuple[str, ...] = BOTH
    until: tuple[tuple[str, Version], ...] = ()

    def fits(self, flavor: str, version: Version) -> bool:
        return flavor in self.flavors and all(version < end for name, end in self.until if name == flavor)


FILES, FORMAT, DECRYPT, LIMITS = "where files are", "how files are read", "decryption", "limits of the tool"

ALLOWED: tuple[ToolOption, ...] = (
    ToolOption("innodb_data_home_dir", FILES),
    ToolOption("innodb_data_file_path", FILES),
    ToolOption("innodb_log_group_home_dir", FILES),
    ToolOption("innodb_undo_directory", FILES),
    ToolOption("innodb_directories", FILES, (MYSQL,)),
    ToolOption("innodb_buffer_pool_filename", FILES),
    ToolOption("aria_log_dir_path", FILES, (MARIADB,)),
    ToolOption("innodb_undo_tablespaces", FORMAT),
    ToolOption("innodb_page_size", FORMAT),
    ToolOption("innodb_checksum_algorithm", FORMAT, until=((MYSQL, (9, 0, 0)),)),
    ToolOption("innodb_log_checksums", FORMAT, until=((MARIADB, (10, 8, 0)),)),
    ToolOption("innodb_log_file_size", FORMAT),
    ToolOption("innodb_log_files_in_group", FORMAT, until=((MARIADB, (10, 6, 0)),)),
    ToolOption("innodb_file_per_table", FORMAT),
    ToolOption("lower_case_table_names", FORMAT),
    ToolOption("innodb_flush_method", FORMAT),
    ToolOption("innodb_use_native_aio", FORMAT),
    # mariadb-backup asks the server for it, and would load login plugins from the one of the option file
    ToolOption("plugin_dir", DECRYPT, (MYSQL,)),
    ToolOption("early_plugin_load", DECRYPT, (MYSQL,), until=((MYSQL, (8, 4, 0)),)),
    ToolOption("keyring_*", DECRYPT, (MYSQL,), until=((MYSQL, (8, 4, 0)),)),
    ToolOption("innodb_encrypt_*", DECRYPT),
    ToolOption("file_key_management*", DECRYPT, (MARIADB,)),
    ToolOption("hashicorp_key_management*", DECRYPT, (MARIADB,)),
    ToolOption("aws_key_management*", DECRYPT, (MARIADB,)),
    ToolOption("tmpdir", LIMITS),
    ToolOption("open_files_limit", LIMITS),
)


def allowed_names(flavor: Flavor) -> tuple[str, ...]:
    """Return the names that the backup tool of this server version gets."""
    return tuple(option.name for option in ALLOWED if option.fits(flavor.name, flavor.version))


def server_groups(flavor: Flavor) -> tuple[str, ...]:
    """Return the groups of an option file that the server reads, without a group suffix."""
    of_series = f"-{dotted(series(flavor.version))}"
    if flavor.name != MARIADB:
        return ("mysqld", "server", f"mysqld{of_series}")
    names = ("mysqld", "mariadb", "mariadbd")
    return (*(f"{name}{end}" for name in names for end in ("", of_series)), "server", "client-server", "galera")


def script_arguments(flavor: Flavor, defaults_file: str) -> list[str]:
    """Return the three arguments of ``add_tool_options`` for a server's option file: the file, groups and names."""
    return [defaults_file, " ".join(server_groups(flavor)), " ".join(allowed_names(flavor))]


#: The arguments of a copy that needs no backup tool.
NO_TOOL = ["", "", ""]
