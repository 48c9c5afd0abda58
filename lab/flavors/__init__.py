"""Differences between MariaDB and MySQL in a lab."""

from lab.errors import LabError
from lab.flavors.base import Flavor
from lab.flavors.mariadb import MariaDB, MariaDB118
from lab.flavors.mysql import MySQL, MySQL97
from lab.flavors.old_mysql import MySQL57, MySQL80

#: ``mysql`` is the installed MySQL, or 9.7 if none is.
FLAVORS: dict[str, type[Flavor]] = {
    flavor.name: flavor for flavor in (MariaDB, MariaDB118, MySQL, MySQL57, MySQL80, MySQL97)
}


def flavor_named(name: str) -> Flavor:
    """Return the flavor; ``LabError`` if it is unknown or its programs are not installed."""
    if name not in FLAVORS:
        raise LabError(f"unknown --flavor {name}. Choose from: {', '.join(FLAVORS)}")
    return FLAVORS[name]()


__all__ = ["FLAVORS", "Flavor", "flavor_named"]
