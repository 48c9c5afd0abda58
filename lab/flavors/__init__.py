"""Differences between MariaDB and MySQL in a lab."""

from lab.errors import LabError
from lab.flavors.base import Flavor
from lab.flavors.mariadb import MariaDB, MariaDB118
from lab.flavors.mysql import MySQL

FLAVORS: dict[str, type[Flavor]] = {"mariadb": MariaDB, "mariadb-11.8": MariaDB118, "mysql": MySQL}


def flavor_named(name: str) -> Flavor:
    """Return the flavor; ``LabError`` if it is unknown or its programs are not installed."""
    if name not in FLAVORS:
        raise LabError(f"unknown --flavor {name}. Choose from: {', '.join(FLAVORS)}")
    return FLAVORS[name]()


__all__ = ["FLAVORS", "Flavor", "flavor_named"]
