"""Differences between MySQL and MariaDB when loading a dump into a new data directory."""

from dbops.engine.flavors import Flavor
from dbops.engine.flavors.optionfile import NOT_PERSISTED, option_words

#: All options except the paths, which the host adds. The server is reachable only through its socket, its writes have no use
#: before it ends well, and it starts no replication. Events and ``init_file`` of the target's option file would write rows that the
#: dump does not have; MySQL does not start with an empty ``--init-file=`` (measured with 9.7.4).
_SHARED = (
    "--skip-networking",
    "--skip-log-bin",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-doublewrite=OFF",
    "--event-scheduler=OFF",
    "--init-file=/dev/null",
)


def install_programs(flavor: Flavor) -> tuple[str, ...]:
    """Return names of the program that creates an empty data directory, best first."""
    if flavor.name == "mariadb":
        return ("mariadb-install-db", "mysql_install_db")
    return flavor.server_programs


def initialise_command(
    flavor: Flavor, program: str, *, defaults_file: str, datadir: str, group_suffix: str = ""
) -> list[str]:
    """Return the command that creates an empty data directory, with the formats of the instance's own option file.

    ``root`` has no password; the server started on it listens on a socket that no other account can open.
    """
    words = [program, *option_words(defaults_file, group_suffix), f"--datadir={datadir}"]
    if flavor.name == "mariadb":
        return [*words, "--skip-test-db", "--auth-root-authentication-method=normal"]
    return [*words, "--initialize-insecure"]


def load_server_options(flavor: Flavor, *, memory_bytes: int) -> list[str]:
    """Return the options of the server that only loads. ``memory_bytes`` is the size of its buffer pool."""
    words = [*_SHARED, f"--innodb-buffer-pool-size={memory_bytes}"]
    if flavor.name == "mariadb":
        return [*words, "--skip-slave-start"]
    return [*words, NOT_PERSISTED, flavor.variable_name("--skip-replica-start")]


def clone_server_options() -> list[str]:
    """Return further options of a server that receives a clone: the plugin loaded for this server only, and permission to write
    (error 1290).

    Without the plugin ``performance_schema`` has no tables with the result of the clone (measured on 9.7.4).
    """
    return ["--plugin-load-add=mysql_clone.so", "--read-only=OFF", "--super-read-only=OFF", "--loose-mysqlx=OFF"]
