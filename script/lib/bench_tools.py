"""Tools of a lab's servers by flavor: backup, unpacking, dump and client."""

import subprocess
from dataclasses import dataclass

from dbops.engine.flavors import Flavor, flavor_for
from lab.lab import Lab

MARIADB = ("mariadb-backup", "mbstream", "mariadb-dump", "mariadb")
MYSQL = ("xtrabackup", "xbstream", "mysqldump", "mysql")


@dataclass(frozen=True, slots=True)
class Tools:
    """Paths, or names on the PATH. ``backup_options``: what a person adds to a backup's command line."""

    backup: str
    unpack: str
    dump: str
    client: str
    backup_options: tuple[str, ...] = ()
    dump_options: tuple[str, ...] = ()


def is_mysql(lab: Lab) -> bool:
    return lab.settings.flavor.startswith("mysql")


def tools_of(lab: Lab) -> Tools:
    found = lab.flavor.programs | lab.flavor.host_programs
    backup, unpack, dump, client = (found.get(name, name) for name in (MYSQL if is_mysql(lab) else MARIADB))
    if not is_mysql(lab):
        return Tools(backup, unpack, dump, client)
    said = subprocess.run([dump, "--version"], capture_output=True, text=True, check=True)
    own_dump = "MariaDB" not in said.stdout
    return Tools(backup, unpack, dump, client, ("--no-version-check",), ("--set-gtid-purged=OFF",) if own_dump else ())


def server_flavor(lab: Lab) -> Flavor:
    """Return the product's flavor of the lab's primary, which runs."""
    with lab.connect(lab.primary.name) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT VERSION() AS version, @@version_comment AS comment")
        row = cursor.fetchone() or {}
    return flavor_for(str(row["version"]), str(row["comment"]))
