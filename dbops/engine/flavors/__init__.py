"""Differences between server families. Start with ``flavor_for``."""

from dbops.engine.errors import Refused
from dbops.engine.flavors.base import Flavor, Version
from dbops.engine.flavors.mariadb import MariaDB
from dbops.engine.flavors.mysql import MySQL
from dbops.engine.flavors.tidb import REASON, is_tidb
from dbops.engine.flavors.versions import MARIADB_NUMBERS, parse_version
from dbops.engine.phrases import phrase

__all__ = ["Flavor", "MariaDB", "MySQL", "Version", "flavor_for", "parse_version"]

OLDEST: dict[type[Flavor], Version] = {MariaDB: (10, 3, 0), MySQL: (5, 7, 0)}


def flavor_for(version: str, version_comment: str = "") -> Flavor:
    """Return the flavor of a server.

    Args:
        version: ``@@version`` as reported (``10.11.19-MariaDB-0+deb12u1``, ``8.0.46-0ubuntu0.24.04.5``), or its numbers
        alone. version_comment: ``@@version_comment``, or ``mariadb`` or ``mysql`` where the flavor is known.

    MariaDB names itself in one of the two (unless its ``version`` is set by hand); distributions' builds of MySQL do
    not (``(Ubuntu)``). Numbers are used only for this: MySQL skipped versions 10 to 25.

    Raises:
        Refused: ``flavor.unknown`` if the text is unreadable or ambiguous, ``flavor.unsupported`` for versions before 10.3
        and 5.7, ``flavor.tidb`` for TiDB, which calls itself MySQL 8.0.
    """
    if is_tidb(version, version_comment):
        raise _refused("flavor.tidb", version, REASON)
    numbers = parse_version(version)
    words = f"{version} {version_comment}".lower()
    is_mariadb = "mariadb" in words
    if not is_mariadb and numbers[0] in MARIADB_NUMBERS:
        raise _refused(
            "flavor.unknown",
            version,
            phrase(
                "the comment {comment} does not say MariaDB, and no MySQL has this number",
                comment=repr(version_comment),
            ),
        )
    kind: type[MariaDB] | type[MySQL] = MariaDB if is_mariadb else MySQL
    if numbers < OLDEST[kind]:
        raise _refused(
            "flavor.unsupported",
            version,
            phrase("older than {version}, the oldest that is supported", version=".".join(map(str, OLDEST[kind][:2]))),
        )
    return kind(numbers)


def _refused(code: str, version: str, found: str) -> Refused:
    return Refused.unchanged(
        code,
        phrase("Detecting the type of server {version}", version=f"{version!r}"),
        found,
    )
