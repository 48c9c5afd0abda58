"""A TiDB cluster as the target of inserts: what its plan needs to know, what of a request is not possible, and what is frozen."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from dbops.engine.facts.instance import HostFacts
from dbops.engine.facts.tidb import TidbFacts
from dbops.engine.load_tests.facts import Neighbour
from dbops.engine.load_tests.generator import LOAD_SCHEMA, names_schema
from dbops.engine.load_tests.request import LoadTestRequest
from dbops.engine.load_tests.workload import Profile
from dbops.engine.phrases import phrase

#: What the account of the load may do, and no more.
PRIVILEGES = "CREATE, DROP, INSERT, SELECT"


@dataclass(frozen=True, slots=True)
class TidbMember:
    """An instance of the cluster, with the facts of its last probe; ``None`` if that did not reach a TiDB node."""

    name: str
    tidb: TidbFacts | None


@dataclass(frozen=True, slots=True)
class TidbTestFacts:
    """Everything that a plan needs to know.

    Attributes:
        cluster, address, port: the cluster, and its node that gets the inserts.
        admin_user, load_user: of the dashboard's account and of the load's. ``has_password``: the latter has one.
        members: all instances of the cluster.
        host: facts of the load generator's host; ``None`` if its last probe did not read it.
        work_dir, free_bytes, neighbours, busy, now: as in ``LoadTestFacts``.
    """

    cluster: str
    address: str
    port: int
    admin_user: str
    load_user: str
    has_password: bool
    members: tuple[TidbMember, ...]
    host: HostFacts | None
    work_dir: str
    now: datetime
    free_bytes: int | None = None
    neighbours: tuple[Neighbour, ...] = ()
    busy: str = ""


def tidb_problems(request: LoadTestRequest) -> list[str]:
    """Return why a possible request is not possible with a TiDB cluster, in words; empty if it is."""
    return list(_problems(request))


def _problems(request: LoadTestRequest) -> Iterator[str]:
    work = request.workload
    if work.profile is not Profile.INSERT:
        yield phrase("only inserts into one table are offered")
    elif names_schema(work.table_ddl):
        yield phrase("the table is made in {load_schema}: its name must have no schema", load_schema=LOAD_SCHEMA)
    if request.run:
        yield phrase("dbops restores no backup of TiDB")
    if request.is_ab or request.options:
        yield phrase("dbops sets no option of a TiDB server: compare two tests instead")
    if request.is_tunnelled:
        yield phrase("the load generator connects to the node itself: choose its host as the test’s host")


def grant_of(user: str) -> str:
    """Return the statements that make the account of the load."""
    name = (user or LOAD_SCHEMA).replace("\\", "\\\\").replace("'", "''")
    return (
        f"CREATE USER '{name}'@'HOST' IDENTIFIED WITH mysql_native_password BY 'PASSWORD';"
        f" GRANT {PRIVILEGES} ON {LOAD_SCHEMA}.* TO '{name}'@'HOST';"
    )
