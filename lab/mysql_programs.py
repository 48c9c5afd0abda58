"""MySQL's own programs, where this machine has them installed or unpacked into a folder beside MariaDB's."""

import os
import subprocess
from pathlib import Path

from lab.checks import find_program
from lab.errors import LabError

#: Names the folder that ``script/lib/unpack-mysql.sh`` fills.
PLACE_VARIABLE = "DBOPS_TEST_MYSQL"
DEFAULT_PLACE = Path("/var/tmp/dbops-mysql-programs")
#: Where each lies in such a folder, as in Debian's packages.
PROGRAMS = {
    "mysqld": "usr/sbin/mysqld",
    "mysql": "usr/bin/mysql",
    "mysqladmin": "usr/bin/mysqladmin",
    "mysqldump": "usr/bin/mysqldump",
    "my_print_defaults": "usr/bin/my_print_defaults",
}
HOW = "script/test unpacks Debian's packages of them, and says why where they cannot be had"


def unpacked_programs() -> Path | None:
    """Return the folder with MySQL's programs, ``None`` where there is none.

    Raises:
        LabError: another user owns it, whose programs are not run.
    """
    place = Path(os.environ.get(PLACE_VARIABLE) or DEFAULT_PLACE)
    if not all((place / path).is_file() for path in PROGRAMS.values()):
        return None
    if place.stat().st_uid not in (0, os.geteuid()):
        raise LabError(f"{place} belongs to another user: set {PLACE_VARIABLE} to a folder of your own")
    return place


def installed_server() -> str | None:
    """Return the path of a ``mysqld`` on this machine that is MySQL's; MariaDB's packages install one of that name too."""
    path = find_program("mysqld")
    if path is None:
        return None
    said = subprocess.run([path, "--no-defaults", "--version"], capture_output=True, text=True, check=False)
    return None if "MariaDB" in said.stdout or said.returncode != 0 else path


def why_not() -> str:
    """Return why no MySQL server can be started here, ``""`` where one can."""
    if installed_server() or unpacked_programs():
        return ""
    return f"MySQL's programs are neither installed nor unpacked in {DEFAULT_PLACE}: {HOW}"
