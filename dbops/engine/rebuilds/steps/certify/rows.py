"""Compare rows of both servers in rounds of some seconds, each at a position of its own, until the time is used up."""

import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.ports import Database
from dbops.engine.rebuilds.certificate import rows as sql
from dbops.engine.rebuilds.certificate.bounded import TOO_LONG, took_too_long
from dbops.engine.rebuilds.certificate.openable import Table
from dbops.engine.rebuilds.certificate.ranges import Range, Row, next_range, ranged, samples
from dbops.engine.rebuilds.certificate.rows import Compared
from dbops.engine.rebuilds.certificate.sizes import comparable, large_of
from dbops.engine.rebuilds.steps.certify.reference import Reference, filters_of, version_of
from dbops.engine.rebuilds.steps.certify.snapshots import RELEASE, common_snapshot
from dbops.engine.rebuilds.steps.run import Run, StepOutcome, again

ROUND_SECONDS = 5.0
#: Looks at rows that differ, each at another position. Rounds without a common position.
TRIES = 3
LISTED, EXAMPLES = 200, 5


def equal_rows(run: Run, target: Database, reference: Reference, record: dict[str, Any]) -> StepOutcome | None:
    """Compare rows: small tables whole, ranges of large ones, all with ``full_certificate``.

    Raises:
        RemoteFailure: ``certificate.rows_differ``.
    """
    state = run.checkpoint.get("certify.rows")
    if state is None:
        if why := _why_not(run, target, reference):
            _leave_out(record, why, "all rows")
            run.journal.say(f"Rows are not compared: {why}.")
            return None
        run.checkpoint["certify.rows"] = _begin(run, target, record)
        return again()
    began = run.clock.now()
    try:
        with common_snapshot(run, reference) as (position, here, there):
            if not position:
                return _missed(run, record, state)
            record["rows"].setdefault("from", position)
            record["rows"]["until"] = position
            is_over = _Round(run, record, state, here, there, run.clock.now() + ROUND_SECONDS).work()
    finally:
        state["spent"] += run.clock.now() - began
    run.journal.progress(note=f"{record['rows']['count']} rows of {record['rows']['tables']} tables are equal")
    _must_be_equal(run, reference, record, state)
    if is_over and not state["again"]:
        _end(run, record)
        return None
    if not run.plan.full_certificate and state["spent"] >= run.plan.certificate_seconds:
        # those that differ are looked at again all the same
        state["again"] = [one for one in state["again"] if one["tries"]]
        if not state["again"]:
            _leave_out(record, "the time was used up", "the other tables")
            _end(run, record)
            return None
    return again()


def _why_not(run: Run, target: Database, reference: Reference) -> str:
    """Return why no rows can be compared, empty if they can."""
    if not (run.plan.full_certificate or run.plan.certificate_seconds):
        return "the settings give no time for it"
    if not run.plan.uses_gtid:
        return "without GTID there is no common position"
    series = [version.split(".")[:2] for version in (version_of(target), version_of(reference.database))]
    if series[0] != series[1]:
        return "the servers are of different series"
    row = reference.database.query("SELECT @@log_bin AS logs, @@log_slave_updates AS updates")[0]
    if not int(row["logs"]) or not (reference.is_primary or int(row["updates"])):
        return f"the binary log of {reference.party.name} does not have all changes"
    return filters_of(run, target, reference)


def _begin(run: Run, target: Database, record: dict[str, Any]) -> dict[str, Any]:
    tables, others = comparable(target)
    record["left_out"] = {}  # of an earlier, failed run of this step
    for table in others:
        _leave_out(record, f"its engine {table.engine or 'unknown'} has no snapshots", str(table))
    large = large_of(target, tables)
    record["rows"] = {"tables": 0, "count": 0, "ranges": 0, "full": run.plan.full_certificate}
    return {
        "spent": 0.0,
        "missed": 0,
        "small": None,
        "large": [[table.schema, table.name] for table in large],
        "at": None,
        "again": [],
        "fraction": random.random(),  # noqa: S311 - which rows are looked at, not a secret
    }


def _missed(run: Run, record: dict[str, Any], state: dict[str, Any]) -> StepOutcome | None:
    state["missed"] += 1
    if state["missed"] < TRIES:
        return again(1.0)
    _leave_out(record, "both servers did not come to one position", "the other rows")
    _end(run, record)
    return None


def _must_be_equal(run: Run, reference: Reference, record: dict[str, Any], state: dict[str, Any]) -> None:
    bad = [one for one in state["again"] if one["tries"] >= TRIES]
    state["again"] = [one for one in state["again"] if one["tries"] < TRIES]
    for one in bad:
        if one["error"]:
            _leave_out(record, one["error"], ".".join(one["table"]))
    names = sorted({".".join(one["table"]) for one in bad if not one["error"]})
    if names:
        del run.checkpoint["certify.rows"]  # it has values of keys
        record["differences"] = [f"table {name} (rows)" for name in names][:LISTED]
        raise RemoteFailure(
            "certificate.rows_differ",
            f"Comparing the rows of {run.plan.target.name} with those of {reference.party.name}",
            cause=f"at {record['rows']['until']}, rows differ in {', '.join(names[:10])}",
        )


def _end(run: Run, record: dict[str, Any]) -> None:
    del run.checkpoint["certify.rows"]
    found = record["rows"]
    run.journal.say(
        f"{found['count']} rows of {found['tables']} tables are equal at {found.get('until', 'no position')}."
    )


def _leave_out(record: dict[str, Any], reason: str, what: str) -> None:
    """Count what was not compared, by reason, with some examples."""
    found = record.setdefault("left_out", {}).setdefault(reason, {"count": 0, "examples": []})
    found["count"] += 1
    if len(found["examples"]) < EXAMPLES:
        found["examples"].append(what)


@dataclass(slots=True)
class _Round:
    """The comparisons at one position."""

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
        return self._small() and self._large()

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
                    self._compare_range(described, _range_of(one["range"]), tries=one["tries"])
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
        large = {Table(*names) for names in self.state["large"]}
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
        """Return whether the table is done."""
        if not one.key:
            if self.run.plan.full_certificate:
                self._compare([one])
            else:
                _leave_out(self.record, "it is large and has no unique key that divides its rows", str(one.table))
            return True
        if self.run.plan.full_certificate:
            return self._all_ranges(one)
        return self._samples(one)

    def _samples(self, one: Compared) -> bool:
        if self.state["at"] is None:
            parts = self._read(lambda: samples(self.there, one, self.state["fraction"]), one)
            if parts is None:
                return True
            self.state["at"] = [_bounds_of(part) for part in parts]
        while self.state["at"]:
            if self.is_late:
                return False
            if not self._compare_range(one, _range_of(self.state["at"][0])):
                return True
            self.state["at"].pop(0)
        self.record["rows"]["tables"] += 1
        self._note_columns([one])
        return True

    def _all_ranges(self, one: Compared) -> bool:
        after = _decoded(self.state["at"])
        while not self.is_late:
            part = self._read(lambda: next_range(self.there, one, after), one)  # noqa: B023 - called at once
            if part is None:
                return True
            if not self._compare_range(one, part):
                return True
            after, self.state["at"] = part.until, _encoded(part.until)
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
            _leave_out(self.record, TOO_LONG if took_too_long(error) else error.cause, str(one.table))
            return None

    def _note_columns(self, tables: Sequence[Compared]) -> None:
        for one in tables:
            for column in one.left_out:
                name, _, kind = column.partition(" (")
                _leave_out(self.record, f"its type {kind.rstrip(')')} has no exact text", f"{one.table}.{name}")

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
                _leave_out(self.record, TOO_LONG, str(batch[0].table))
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

    def _compare_range(self, one: Compared, part: Range, tries: int = 0) -> bool:
        """Return false for a table that is left out: the statement took too long, and would again."""
        try:
            left, right = self._both(*ranged(one, part))
        except Unreachable:
            raise
        except RemoteFailure as error:
            if took_too_long(error):
                _leave_out(self.record, TOO_LONG, str(one.table))
                return False
            self._keep(one, part, tries, error.cause)
            return True
        if sql.sums(left[0]) == sql.sums(right[0]):
            self.record["rows"]["ranges"] += 1
            self.record["rows"]["count"] += int(left[0]["n"])
        else:
            self._keep(one, part, tries, "")
        return True

    def _keep(self, one: Compared, part: Range | None, tries: int, error: str) -> None:
        """Look at rows again in the next round: a statement that changed the table can be the cause."""
        self._look_later(one, part, tries + 1, error)

    def _look_later(self, one: Compared, part: Range | None, tries: int, error: str) -> None:
        names = [one.table.schema, one.table.name]
        bounds = part and _bounds_of(part)
        self.state["again"].append({"table": names, "range": bounds, "tries": tries, "error": error})

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


def _bounds_of(part: Range) -> list[Any]:
    return [_encoded(row) for row in (part.after, part.until, part.from_)]


def _range_of(bounds: Sequence[Any]) -> Range:
    return Range(*map(_decoded, bounds))


def _encoded(row: Row | None) -> list[Any] | None:
    return None if row is None else [_plain(value) for value in row]


def _plain(value: Any) -> Any:
    """Return a value of a key as plain data. The servers read dates in text; a decimal number in text would be compared inexactly."""
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, (datetime, date)):
        return value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()
    return value if isinstance(value, (int, str)) else str(value)


def _decoded(row: Any) -> Row | None:
    """Return a row of key values; a single value is the first column's."""
    if row is None:
        return None
    values = row if isinstance(row, list) else [row]
    return tuple(_value(value) if isinstance(value, dict) else value for value in values)


def _value(plain: dict[str, str]) -> bytes | Decimal:
    return Decimal(plain["decimal"]) if "decimal" in plain else bytes.fromhex(plain["hex"])
