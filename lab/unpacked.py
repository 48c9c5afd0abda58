"""Find server programs of other versions, unpacked into a folder beside the installed ones."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.checks import find_program
from lab.errors import LabError

HOW = "run script/test, which unpacks them or prints why it cannot"


@dataclass(frozen=True, slots=True)
class Unpacked:
    """Programs that ``script/lib/unpack-server.sh`` or ``unpack-old-mysql.sh`` unpacked into a folder.

    ``place_variable`` is the environment variable for another folder; ``paths`` has each program's path in it.
    """

    title: str
    place_variable: str
    default_place: Path
    paths: Mapping[str, str]

    def folder(self) -> Path | None:
        """Return the folder with the programs, ``None`` if there is none.

        Raises:
            LabError: Another user owns the folder; their programs are not run.
        """
        place = Path(os.environ.get(self.place_variable) or self.default_place)
        if not all((place / path).is_file() for path in self.paths.values()):
            return None
        if place.stat().st_uid not in (0, os.geteuid()):
            raise LabError(f"{place} belongs to another user. Set {self.place_variable} to a folder of your own")
        return place

    def programs(self, folder: Path) -> dict[str, str]:
        """Return program name to absolute path."""
        return {name: str(folder / path) for name, path in self.paths.items()}

    def why_not(self) -> str:
        """Return the reason why these programs cannot run here, ``""`` if they can."""
        try:
            if self.folder():
                return ""
        except LabError as error:
            return str(error)
        return f"{self.title}'s programs are not unpacked in {self.default_place}: {HOW}"


MYSQL = Unpacked(
    "MySQL",
    "DBOPS_TEST_MYSQL",
    Path("/var/tmp/dbops-mysql-programs"),
    {
        "mysqld": "usr/sbin/mysqld",
        "mysql": "usr/bin/mysql",
        "mysqladmin": "usr/bin/mysqladmin",
        "mysqldump": "usr/bin/mysqldump",
        "my_print_defaults": "usr/bin/my_print_defaults",
    },
)
MYSQL_5_7 = Unpacked(
    "MySQL 5.7", "DBOPS_TEST_MYSQL_5_7", Path("/var/tmp/dbops-mysql-5.7-programs"), {"mysqld": "bin/mysqld"}
)
MYSQL_8_0 = Unpacked(
    "MySQL 8.0", "DBOPS_TEST_MYSQL_8_0", Path("/var/tmp/dbops-mysql-8.0-programs"), {"mysqld": "bin/mysqld"}
)
MARIADB_11_8 = Unpacked(
    "MariaDB 11.8",
    "DBOPS_TEST_MARIADB_11_8",
    Path("/var/tmp/dbops-mariadb-11.8-programs"),
    {
        "mariadbd": "usr/sbin/mariadbd",
        "mariadb": "usr/bin/mariadb",
        "mariadb-admin": "usr/bin/mariadb-admin",
        "mariadb-dump": "usr/bin/mariadb-dump",
        "mariadb-backup": "usr/bin/mariadb-backup",
        "mbstream": "usr/bin/mbstream",
        "mariadb-install-db": "usr/bin/mariadb-install-db",
        "my_print_defaults": "usr/bin/my_print_defaults",
    },
)


def installed_mysql() -> str | None:
    """Return the path of MySQL's ``mysqld`` on this machine; MariaDB's packages also install one."""
    path = find_program("mysqld")
    if path is None:
        return None
    said = subprocess.run([path, "--no-defaults", "--version"], capture_output=True, text=True, check=False)
    return None if "MariaDB" in said.stdout or said.returncode != 0 else path


def why_no_mysql_8_0() -> str:
    """Return the reason why no MySQL 8.0 can start here, ``""`` if one can. Its clients are those of 9.7."""
    return MYSQL_8_0.why_not() or MYSQL.why_not()


def why_no_mysql() -> str:
    """Return the reason why no MySQL server can start here, ``""`` if one can."""
    return "" if installed_mysql() else MYSQL.why_not()
