"""Version numbers of servers and tools."""

import re

from dbops.engine.errors import Refused
from dbops.engine.flavors.base import Version
from dbops.engine.phrases import phrase

#: First numbers of MariaDB's versions; MySQL skipped them.
MARIADB_NUMBERS = range(10, 26)
PRODUCTS = {"mariadb": "MariaDB", "mysql": "MySQL"}

_NUMBERS = re.compile(r"(?<![\d.])(\d+)\.(\d+)(?:\.(\d+))?")


def parse_version(text: str) -> Version:
    """Return the three numbers of a version printed by a server or tool.

    Takes ``10.11.19-MariaDB-0+deb12u1``, ``8.0.46-0ubuntu0.24.04.5``, ``mysqld  Ver 9.7.4 for Linux``. The prefix ``5.5.5-`` of
    MariaDB's handshake (for old replicas that reject versions from 10 on) is skipped. A missing third number is 0.

    Raises:
        Refused: ``flavor.unknown``, there is no version in the text.
    """
    found = _NUMBERS.search(text.replace("5.5.5-", "", 1))
    if found is None:
        raise Refused(
            "flavor.unknown",
            phrase("Reading a version"),
            cause=phrase("{text} holds no version number", text=f"{text!r}"),
            next_step=phrase("Check which version the program prints on that host."),
        )
    major, minor, patch = found.groups()
    return int(major), int(minor), int(patch or 0)


def product_name(flavor: str) -> str:
    """Return the name for people: ``MariaDB`` for ``mariadb``."""
    return PRODUCTS.get(flavor, flavor)


def product_of(program_version: str) -> str:
    """Return ``mariadb`` or ``mysql``, by the version that a client program prints."""
    return "mariadb" if parse_version(program_version)[0] in MARIADB_NUMBERS else "mysql"


def series(version: Version) -> tuple[int, int]:
    """Return the part of a version that a server, its backup tool and its clone must share."""
    return version[:2]


def dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(number) for number in version)
