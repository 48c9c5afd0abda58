"""Directories and files in the data directory that the target's option file names: a copy does not have them."""

from collections.abc import Mapping
from posixpath import isabs, join, normpath

#: Options with one directory or several.
DIRECTORIES = {
    *("tmpdir", "innodb_tmpdir", "slave_load_tmpdir", "replica_load_tmpdir", "innodb_temp_tablespaces_dir"),
    *("ssl_capath", "ssl_crlpath", "secure_file_priv", "lc_messages_dir", "character_sets_dir", "plugin_dir"),
}
#: Options with a file that the server writes: its directory must exist.
WRITTEN = {
    *(
        "log_bin",
        "log_bin_index",
        "relay_log",
        "relay_log_index",
        "relay_log_info_file",
        "log_error",
        "pid_file",
        "socket",
    ),
    *("slow_query_log_file", "log_slow_query_file", "general_log_file", "log_tc", "innodb_buffer_pool_filename"),
    *("server_audit_file_path", "audit_log_file"),
}
#: Options with a file that the server reads.
READ = {
    *("ssl_ca", "ssl_cert", "ssl_key", "ssl_crl", "admin_ssl_ca", "admin_ssl_cert", "admin_ssl_key", "init_file"),
    *("file_key_management_filename", "keyring_file_data", "sha256_password_private_key_path"),
    *("sha256_password_public_key_path", "caching_sha2_password_private_key_path"),
    "caching_sha2_password_public_key_path",
}
#: Options with data, which every copy has, and with names of databases.
DATA = {
    *("datadir", "innodb_data_home_dir", "innodb_undo_directory", "innodb_log_group_home_dir", "aria_log_dir_path"),
    *("innodb_data_file_path", "innodb_temp_data_file_path", "innodb_directories"),
}
#: Files of MySQL that no option names: certificates that it makes, which clients may know, what ``SET PERSIST`` wrote, and where one
#: instance of several on a host has its own components and keyring.
MYSQL_OWN = (
    *("ca.pem", "ca-key.pem", "server-cert.pem", "server-key.pem", "client-cert.pem", "client-key.pem"),
    *("private_key.pem", "public_key.pem", "mysqld-auto.cnf"),
    *("mysqld.my", "component_keyring_file.cnf", "component_keyring_encrypted_file.cnf"),
)


def kept_inside(options: Mapping[str, str], datadir: str, *, flavor: str = "") -> tuple[str, ...]:
    """Return lines ``KIND PATH``, parents first: ``d`` a directory, ``f`` a file, ``a`` either, as it is on the host.

    Paths are relative to the data directory. An option that is not listed here counts if its value is an absolute path there.
    """
    found: dict[str, str] = {}
    for name, value in sorted(options.items()):
        known = name in DIRECTORIES or name in WRITTEN or name in READ
        if name in DATA or "\n" in value:
            continue
        for path in value.split(":") if name in DIRECTORIES else [value]:
            place = _inside(path, datadir) if path and (known or isabs(path)) else ""
            parts = place.split("/") if place else []
            for length in range(1, len(parts)):
                found.setdefault("/".join(parts[:length]), "d")
            if parts and name not in WRITTEN:
                found.setdefault(place, "d" if name in DIRECTORIES else "f" if name in READ else "a")
    if flavor == "mysql":
        for place in MYSQL_OWN:
            found.setdefault(place, "f")
    return tuple(f"{kind} {place}" for place, kind in sorted(found.items()))


def _inside(path: str, datadir: str) -> str:
    """Return a path relative to the data directory, empty if it is elsewhere or the directory itself."""
    root = normpath(datadir).rstrip("/") + "/"
    place = normpath(path if isabs(path) else join(root, path))
    return place.removeprefix(root) if place.startswith(root) else ""
