"""The accounts of docs/how-to/accounts.md: its statements for a server, run there as they are, and what they grant."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dbops.engine.flavors import Flavor, parse_version
from dbops.engine.hosts.local_login import Account
from lab.flavors.base import ANY_LAB_HOST
from tests.drivers.clusters import PRIMARY, SOURCE, TARGET, Cluster

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "accounts.md"
CLONE, MYISAM, PERCONA = "For the method clone", "with MyISAM tables", "on Percona Server"
#: Of the test, so that no account of the lab has these names. The lab's servers see every client at a loopback address.
PREFIX, PASSWORD = "doc_", "it's long enough for a test"
_SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_STATEMENT = re.compile(r"((?:CREATE|GRANT)[^;]+);(?:[ ]*-- ([^\n]*))?")
_GRANT = re.compile(r"GRANT (.+) ON (\S+) TO (.+?)( WITH GRANT OPTION)?")


@dataclass(frozen=True, slots=True)
class Grant:
    """One privilege on one object, and the accounts that have it. ``more``: the end of the statement."""

    privilege: str
    on: str
    to: str
    more: str = ""

    @property
    def kind(self) -> str:
        names = {"backup": "backup", "repl": "replication", "dbops": "dashboard"}
        return next(kind for name, kind in names.items() if f"{PREFIX}{name}'" in self.to)

    def is_implied_by_super(self, flavor: Flavor) -> bool:
        """Whether a server grants it with ``SUPER``, which the same account has: MariaDB before 11.0."""
        of_super = ("ADMIN", "MONITOR", "USER")
        parts = flavor.name == "mariadb" and flavor.version < (11, 0, 0) and self.kind == "dashboard"
        return parts and self.privilege.endswith(of_super)


def heading(flavor: Flavor) -> str:
    """Return the heading of the statements for a server."""
    if flavor.name == "mysql":
        return "MySQL 8.0 and newer" if flavor.version >= (8, 0, 0) else "MySQL 5.7"
    return "MariaDB 10.5 and newer" if flavor.version >= (10, 5, 0) else "MariaDB 10.3 and 10.4"


def statements(title: str, flavor: Flavor) -> Iterator[tuple[str, str]]:
    """Yield each statement below a heading that this version has, with what it is only for."""
    sections = dict(_SECTION.findall(PAGE.read_text(encoding="utf-8")))
    [block] = re.findall(r"```sql\n(.*?)```", sections[title], re.DOTALL)
    option = ""
    for line in re.split(r"\n(?=--|CREATE|GRANT|\n)", f"\n{block}"):
        found = _STATEMENT.match(line.strip())
        if comment := re.match(r"\s*-- (.*)", line):
            option = comment[1].removeprefix("only ") if comment[1].startswith("only ") else ""
        elif found and _has(flavor, found[2] or ""):
            yield " ".join(found[1].split()), option


def _has(flavor: Flavor, note: str) -> bool:
    """Return whether a version has the statement with this note behind it."""
    if found := re.match(r"(from|before) (\d+\.\d+\.\d+)", note):
        return (flavor.version >= parse_version(found[2])) is (found[1] == "from")
    return True


@dataclass
class Documented:
    """The accounts on a cluster, made from the page."""

    cluster: Cluster
    grants: list[Grant] = field(default_factory=list)

    @property
    def dashboard(self) -> Account:
        return Account(f"{PREFIX}dbops", PASSWORD)

    @property
    def backup(self) -> Account:
        return Account(f"{PREFIX}backup", PASSWORD)

    @property
    def replication(self) -> Account:
        return Account(f"{PREFIX}repl", PASSWORD)

    def create(self, title: str, *, without: Collection[str] = (), only: str | None = None) -> None:
        """Run the statements below a heading on the primary, as the page says, and wait for the replicas.

        Args:
            without: options that are left out.
            only: the statements of this option alone.
        """
        for text, option in statements(title, self.cluster.flavor):
            if option in without or only not in (None, option):
                continue
            sql = text.replace("DASHBOARD", ANY_LAB_HOST).replace("'...'", "'{}'".format(PASSWORD.replace("'", "''")))
            sql = re.sub(r"'(dbops|backup|repl)'@", rf"'{PREFIX}\1'@", sql)
            self.cluster.own(PRIMARY, sql, write_binlog=True)
            if found := _GRANT.fullmatch(sql):
                self.grants += [Grant(one, *found.group(2, 3), found[4] or "") for one in found[1].split(", ")]
        self.cluster.wait()

    def each(self) -> list[Grant]:
        """Return the grants. What two options need is one grant."""
        return list(dict.fromkeys(self.grants))

    def take(self, grant: Grant) -> None:
        self._everywhere(f"REVOKE {grant.privilege} ON {grant.on} FROM {grant.to}")

    def give(self, grant: Grant) -> None:
        self._everywhere(f"GRANT {grant.privilege} ON {grant.on} TO {grant.to}{grant.more}")

    def drop(self) -> None:
        accounts = {account for grant in self.grants for account in grant.to.split(", ")}
        self.cluster.own(PRIMARY, *(f"DROP USER {account}" for account in sorted(accounts)), write_binlog=True)
        self.cluster.wait()

    def _everywhere(self, statement: str) -> None:
        for name in (PRIMARY, SOURCE, TARGET):
            self.cluster.own(name, statement)
