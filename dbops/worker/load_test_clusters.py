"""The TiDB cluster that takes the inserts of a load test: claimed before the first write, watched, and left as it was.

Each change is noted in the checkpoint before it is made, so that the next driver knows what a dead one may have left.
"""

from contextlib import closing
from typing import Any

from dbops.database import clock
from dbops.drivers.mysql import MysqlDatabase
from dbops.drivers.probe_tidb import leaders
from dbops.engine.capacity.tidb_placement import skew_of
from dbops.engine.errors import DbopsError, Refused, Unreachable
from dbops.engine.facts.instance import from_record, to_record
from dbops.engine.flavors.sql_text import sql_name
from dbops.engine.load_tests.generator import LOAD_SCHEMA, table_name
from dbops.engine.load_tests.plan import LoadTestPlan
from dbops.engine.load_tests.request import LoadTestRequest
from dbops.engine.load_tests.tidb_cluster import claim, make_table, must_be_free, release
from dbops.engine.load_tests.tidb_target import TidbTarget
from dbops.engine.phrases import phrase
from dbops.loaders.accounts import account_of
from dbops.loaders.ssh_addresses import jump_of
from dbops.models import LoadTest
from dbops.worker.connections import connect_with, open_database
from dbops.worker.journal import LoadTestJournal

#: Seconds between two looks at a cluster that is under load, and without a look until the load ends.
LOOK_SECONDS, BLIND_SECONDS = 5.0, 60.0
#: Of a statement that makes or drops a table with many regions.
STATEMENT_SECONDS = 120.0
#: States of the claim in the checkpoint; empty: there is none. Its answer is unknown; it is held; it is held, with its table.
ASKED, HELD, READY = "asked", "held", "ready"


class TidbCluster:
    """The cluster of one load test. ``checkpoint`` is that of its row."""

    def __init__(self, row: LoadTest, checkpoint: dict[str, Any], target: TidbTarget) -> None:
        self._row, self._checkpoint, self._target = row, checkpoint, target
        self._request = from_record(LoadTestRequest, row.request)
        self._admin: MysqlDatabase | None = None

    @classmethod
    def of(cls, row: LoadTest, checkpoint: dict[str, Any]) -> "TidbCluster | None":
        """Return the cluster of a load test; ``None`` if it has a scratch server."""
        target = from_record(LoadTestPlan, row.plan).tidb
        return cls(row, checkpoint, target) if target else None

    @property
    def password(self) -> str:
        return account_of(self._row.source, "load").password

    def close(self) -> None:
        if self._admin:
            self._admin.close()
        self._admin = None

    def hold(self, journal: LoadTestJournal) -> bool:
        """Claim the cluster and make the table, or, once that is done, look every few seconds whether it still serves nothing.

        Return whether a look has seen it so just now.

        Raises:
            Refused: as ``must_be_free`` and ``claim``, or the node has another address by now (``load_test.not_as_planned``).
            RemoteFailure, Unreachable: as ``make_table``.
        """
        if self._checkpoint.get("claim") == READY:
            return self._watch()
        self._must_be_as_planned()
        self.leave()  # what an interrupted driver left
        self._look(is_claimed=False)
        self._checkpoint["claim"] = ASKED
        journal.flush()
        with closing(self._as_load()) as database:
            try:
                claim(database, self._target, load_test=self._row.uid)
            except Refused:
                self._checkpoint["claim"] = ""  # the server has said that it made nothing
                raise
            self._checkpoint["claim"] = HELD
            journal.say(
                phrase(
                    "The cluster {cluster} serves nothing. Made the schema {schema} there.",
                    cluster=self._target.cluster,
                    schema=LOAD_SCHEMA,
                )
            )
            journal.flush()
            make_table(database, self._request.workload)
        self._checkpoint["claim"] = READY
        return True

    def _watch(self) -> bool:
        age = clock.now().timestamp() - self._checkpoint["looked_at"]
        if age < LOOK_SECONDS:
            return False
        try:
            self._look(is_claimed=True)
        except Unreachable as error:
            if age < BLIND_SECONDS:
                raise
            found = phrase(
                "it has not answered for {age} s, so dbops cannot see whether it serves: {cause}",
                age=f"{age:.0f}",
                cause=error.cause,
            )
            raise Refused(
                "load_test.cluster_in_use",
                phrase("Watching the cluster {cluster}", cluster=self._target.cluster),
                cause=found,
            ) from error
        return True

    def leave(self) -> bool:
        """Drop the schema of this test, if it may be there, and return whether that was so. Idempotent. Raises as ``release``."""
        state = self._checkpoint.get("claim", "")
        if not state:
            return False
        with closing(self._as_load()) as database:
            release(database, self._request.workload, load_test=self._row.uid, is_claimed=state != ASKED)
        self._checkpoint["claim"] = ""
        return True

    def note_placement(self) -> None:
        """Note where the regions of the table have their leaders, as the report shows it; without it, why not."""
        table = table_name(self._request.workload.table_ddl)
        try:
            rows = self._database().query(f"SHOW TABLE {sql_name(LOAD_SCHEMA)}.{sql_name(table)} REGIONS")
        except DbopsError as error:
            self._checkpoint["placement"] = {"Problem": error.cause}
            return
        found = leaders(rows)
        stores = sum(one.startswith("tikv ") for one in self._target.nodes)
        skew = skew_of(found, stores)
        self._checkpoint["placement"] = {
            "Stores": to_record(found),
            "Regions": sum(one.regions for one in found),
            "TikvNodes": stores,
            "Skew": round(skew.factor, 2) if skew else None,
        }

    def _look(self, *, is_claimed: bool) -> None:
        try:
            must_be_free(self._database(), self._target, load_test=self._row.uid, is_claimed=is_claimed)
        except DbopsError:
            self.close()
            raise
        self._checkpoint["looked_at"] = clock.now().timestamp()

    def _database(self) -> MysqlDatabase:
        self._admin = self._admin or open_database(self._row.source)
        return self._admin

    def _as_load(self) -> MysqlDatabase:
        account = account_of(self._row.source, "load")
        return connect_with(
            self._target.address,
            self._target.port,
            account.user,
            account.password,
            connect_timeout_seconds=5.0,
            read_timeout_seconds=STATEMENT_SECONDS,
            jump=jump_of(self._row.source.host),
            tls_ca=self._row.source.cluster.tls_ca,
        )

    def _must_be_as_planned(self) -> None:
        source, target = self._row.source, self._target
        now = (source.address, source.port, account_of(source, "load").user)
        if now != (target.address, target.port, target.user):
            found = phrase(
                "{source} was {user}@{address}:{port}, and is {new_user}@{new_address}:{new_port}",
                source=source.name,
                user=target.user,
                address=target.address,
                port=target.port,
                new_user=now[2],
                new_address=now[0],
                new_port=now[1],
            )
            raise Refused(
                "load_test.not_as_planned", phrase("Starting load test {test}", test=self._row.pk), cause=found
            )


def leave_cluster_of(dead: LoadTest) -> None:
    """Drop what an ended load test may have left in its TiDB cluster. Raises as ``TidbCluster.leave``."""
    if cluster := TidbCluster.of(dead, dead.checkpoint):
        cluster.leave()
