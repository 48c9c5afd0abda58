"""One round of comparing rows: as many statements at one position as its time allows."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.phrases import phrase
from dbops.engine.ports import Database
from dbops.engine.rebuilds.certificate import rows as sql
from dbops.engine.rebuilds.certificate.bounded import TOO_LONG, took_too_long
from dbops.engine.rebuilds.certificate.key_values import bounds_of, decoded, encoded, range_of, shown_range
from dbops.engine.rebuilds.certificate.openable import Table
from dbops.engine.rebuilds.certificate.ranges import Range, next_range, ranged, samples
from dbops.engine.rebuilds.certificate.rows import Compared
from dbops.engine.rebuilds.certificate.sizes import comparable
from dbops.engine.rebuilds.steps.certify.snapshots import RELEASE
from dbops.engine.rebuilds.steps.run import Run

ROUND_SECONDS = 5.0
#: Looks at rows that differ, each at another position. Rounds without a common position.
TRIES = 3
EXAMPLES = 5


def leave_out(record: dict[str, Any], reason: str, what: str) -> None:
    """Count what was not compared, by reason, with some examples."""
    found = record.setdefault("left_out", {}).setdefault(reason, {"count": 0, "examples": []})
    found["count"] += 1
    if len(found["examples"]) < EXAMPLES:
        found["examples"].append(what)


def take_differing(record: dict[str, Any], state: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what differed in every look, and take it from the list of rows to look at again. Failed statements are left out."""
    bad = [one for one in state["again"] if one["tries"] >= TRIES]
    state["again"] = [one for one in state["again"] if one["tries"] < TRIES]
    for one in bad:
        if one["error"]:
            leave_out(record, one["error"], ".".join(one["table"]))
    return [one for one in bad if not one["error"]]


@dataclass(slots=True)
class ComparisonRound:
    """The comparisons at one position.

    ``state`` is plain data that the next round continues with: ``small`` is the last small table that was compared, ``sized``
    has all large ones, ``large`` the tables of which ranges are compared, ``whole`` those of which all rows are, ``at`` is the place in
    the first of them, ``sampled`` what was counted of a table before all its rows are, and ``again`` the rows to look at again.
    """

    run: Run
    record: dict[str, Any]
    state: dict[str, Any]
    here: Database
    there: Database
    deadline: float
    #: columns by table, of each schema; and tables that are not small
    schemas: dict[str, dict[str, str]] = field(default_factory=dict)
    single: dict[tuple[str, str], Compared | None] = field(default_factory=dict)

    def work(self) -> bool:
        """Return whether nothing is left, apart from rows to look at again."""
        self._look_again()
        return self._small() and self._large() and self._whole()

    @property
    def is_late(self) -> bool:
        return self.run.clock.now() >= self.deadline

    def _look_again(self) -> None:
        for _ in range(len(self.state["again"])):
            if self.is_late:
                return
            one = self.state["again"][0]
            # none if dropped since: the next look at the inventory of a later rebuild has it
            if described := self._one(*one["table"]):
                if one["range"] is None:
                    self._compare([described], tries=one["tries"])
                else:
                    self._compare_range(described, range_of(one["range"]), tries=one["tries"], shown=one["rows"])
            self.state["again"].pop(0)

    def _batch(self, tables: Sequence[Table]) -> list[Compared]:
        """Return small tables, by the columns of their schema. One that was dropped since is none."""
        found = []
        for table in tables:
            if table.schema not in self.schemas:
                self.schemas[table.schema] = sql.describe(self.here, table.schema)
            if columns := self.schemas[table.schema].get(table.name):
                found.append(sql.compared(table, columns))
        return found

    def _one(self, schema: str, name: str) -> Compared | None:
        if (schema, name) not in self.single:
            self.single[schema, name] = sql.describe_one(self.here, Table(schema, name))
        return self.single[schema, name]

    def _small(self) -> bool:
        tables, _ = comparable(self.here)
        large = {Table(*names) for names in self.state["sized"]}
        last = Table(*self.state["small"]) if self.state["small"] else None
        left = [table for table in sorted(tables) if table not in large and (last is None or table > last)]
        for start in range(0, len(left), sql.BATCH):
            if self.is_late:
                return False
            names = left[start : start + sql.BATCH]
            batch = self._batch(names)
            self._compare(batch)
            self._note_columns(batch)
            self.state["small"] = [names[-1].schema, names[-1].name]
        return True

    def _large(self) -> bool:
        while self.state["large"]:
            if self.is_late:
                return False
            schema, name = self.state["large"][0]
            one = self._one(schema, name)
            if one is None or self._large_table(one):
                self.state["large"].pop(0)
                self.state["at"] = None
        return True

    def _large_table(self, one: Compared) -> bool:
        """Return whether the table's ranges are done."""
        if one.key:
            return self._samples(one)
        if not self.run.plan.full_certificate:
            leave_out(self.record, phrase("it is large and has no unique key that divides its rows"), str(one.table))
        return True

    def _whole(self) -> bool:
        while self.state["whole"]:
            if self.is_late:
                return False
            schema, name = self.state["whole"][0]
            one = self._one(schema, name)
            if one is None or self._whole_table(one):
                self.state["whole"].pop(0)
                self.state["at"], self.state["number"] = None, 0
        return True

    def _whole_table(self, one: Compared) -> bool:
        """Return whether the table is done."""
        for name, count in self.state["sampled"].pop(str(one.table), {}).items():
            self.record["rows"][name] -= count  # they are counted once more
        if one.key:
            return self._all_ranges(one)
        self._compare([one])
        self._note_columns([one])
        return True

    def _samples(self, one: Compared) -> bool:
        if self.state["at"] is None:
            parts = self._read(lambda: samples(self.there, one, self.state["fraction"]), one)
            if parts is None:
                self._give_up(one)
                return True
            self.state["at"] = [bounds_of(part) for part in parts]
        while self.state["at"]:
            if self.is_late:
                return False
            before = dict(self.record["rows"])
            if not self._compare_range(one, range_of(self.state["at"][0])):
                self._give_up(one)
                return True
            self._note_sampled(one, before)
            self.state["at"].pop(0)
        before = dict(self.record["rows"])
        self.record["rows"]["tables"] += 1
        self._note_sampled(one, before)
        if not self.run.plan.full_certificate:
            self._note_columns([one])
        return True

    def _give_up(self, one: Compared) -> None:
        """Compare nothing more of a table whose statement took too long: the next one would, too."""
        names = [one.table.schema, one.table.name]
        self.state["whole"] = [table for table in self.state["whole"] if table != names]

    def _note_sampled(self, one: Compared, before: dict[str, Any]) -> None:
        """Remember what was counted, if all rows of the table are compared later."""
        if self.run.plan.full_certificate:
            known = self.state["sampled"].setdefault(str(one.table), {})
            for name in ("tables", "count", "ranges"):
                known[name] = known.get(name, 0) + self.record["rows"][name] - before[name]

    def _all_ranges(self, one: Compared) -> bool:
        after = decoded(self.state["at"])
        while not self.is_late:
            part = self._read(lambda: next_range(self.there, one, after), one)  # noqa: B023 - called at once
            if part is None:
                return True
            number = self.state["number"] = self.state.get("number", 0) + 1
            if not self._compare_range(one, part, shown=shown_range(one, part, number)):
                return True
            after, self.state["at"] = part.until, encoded(part.until)
            if part.until is None:
                self.record["rows"]["tables"] += 1
                self._note_columns([one])
                return True
        return False

    def _read(self, read: Callable[[], Any], one: Compared) -> Any:
        try:
            return read()
        except Unreachable:
            raise
        except RemoteFailure as error:
            leave_out(self.record, TOO_LONG if took_too_long(error) else error.cause, str(one.table))
            return None

    def _note_columns(self, tables: Sequence[Compared]) -> None:
        for one in tables:
            for column in one.left_out:
                name, _, kind = column.partition(" (")
                leave_out(self.record, phrase("its type has no exact text"), f"{one.table}.{name} ({kind.rstrip(')')})")

    def _compare(self, batch: Sequence[Compared], tries: int = 0) -> None:
        """Compare whole tables; those of a failed statement one by one in the next rounds."""
        if not batch:
            return
        try:
            left, right = self._both(sql.whole(batch), ())
        except Unreachable:
            raise
        except RemoteFailure as error:
            if len(batch) > 1:
                for one in batch:
                    self._look_later(one, None, tries, "")
            elif took_too_long(error):
                leave_out(self.record, TOO_LONG, str(batch[0].table))
            else:
                self._keep(batch[0], None, tries, error.cause)
            return
        sums = {int(row["i"]): sql.sums(row) for row in right}
        for row in left:
            one = batch[int(row["i"])]
            if sums.get(int(row["i"])) == sql.sums(row):
                self.record["rows"]["tables"] += 1
                self.record["rows"]["count"] += int(row["n"])
            else:
                self._keep(one, None, tries, "")

    def _compare_range(self, one: Compared, part: Range, tries: int = 0, shown: str = "") -> bool:
        """Return false for a table that is left out: the statement took too long, and would again."""
        try:
            left, right = self._both(*ranged(one, part))
        except Unreachable:
            raise
        except RemoteFailure as error:
            if took_too_long(error):
                leave_out(self.record, TOO_LONG, str(one.table))
                return False
            self._keep(one, part, tries, error.cause, shown)
            return True
        if sql.sums(left[0]) == sql.sums(right[0]):
            self.record["rows"]["ranges"] += 1
            self.record["rows"]["count"] += int(left[0]["n"])
        else:
            self._keep(one, part, tries, "", shown)
        return True

    def _keep(self, one: Compared, part: Range | None, tries: int, error: str, shown: str = "") -> None:
        """Look at rows again in the next round: a statement that changed the table can be the cause."""
        self._look_later(one, part, tries + 1, error, shown)

    def _look_later(self, one: Compared, part: Range | None, tries: int, error: str, shown: str = "") -> None:
        names, bounds = [one.table.schema, one.table.name], part and bounds_of(part)
        self.state["again"].append({"table": names, "range": bounds, "tries": tries, "error": error, "rows": shown})

    def _both(self, statement: str, parameters: tuple[Any, ...]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Run a statement on both servers at the same time, and give the tables' locks back."""

        def ask(database: Database) -> list[dict[str, Any]]:
            try:
                found = database.query(statement, parameters)
            except Unreachable:
                raise
            except RemoteFailure:
                database.execute(RELEASE)
                raise
            # not after other errors: the connection may still wait for its answer
            database.execute(RELEASE)
            return found

        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(ask, self.there)
            mine = ask(self.here)
            return mine, other.result()
