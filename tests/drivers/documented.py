"""The accounts of `manage.py grants`: the statements for a server, run there as they are, and what they grant."""

import re
from collections.abc import Collection
from dataclasses import dataclass, field

from dbops.engine.flavors import Flavor
from dbops.engine.flavors.account_statements import OPTIONS, account_statements
from dbops.engine.hosts.local_login import Account
from lab.flavors.base import ANY_LAB_HOST
from tests.drivers.clusters import PRIMARY, SOURCE, TARGET, Cluster

CLONE, MYISAM, PERCONA = "clone", "myisam", "percona"
#: Of the test, so that no account of the lab has these names. The lab's servers see every client at a loopback address.
PREFIX, PASSWORD = "doc_", "it's long enough for a test"
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

    def create(self, *, without: Collection[str] = (), only: str | None = None) -> None:
        """Run the statements on the primary, and wait for the replicas.

        Args:
            without: options that are left out.
            only: the statements of this option alone.
        """
        wanted = [only] if only else [name for name in OPTIONS if name not in without]
        for one in account_statements(self.cluster.flavor, wanted):
            if only not in (None, one.option):
                continue
            text = one.sql
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
