"""The certificate: the copy is proven to be the same data before the old data is removed."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.phrases import phrase
from dbops.engine.ports import Database
from dbops.engine.rebuilds.certificate.bounded import TOO_LONG, took_too_long
from dbops.engine.rebuilds.certificate.openable import FORGETFUL, Opened, Table, open_tables, tables_of
from dbops.engine.rebuilds.plan import Plan, PlannedCommand
from dbops.engine.rebuilds.steps.base import Step
from dbops.engine.rebuilds.steps.certify.looks import LISTED, listed, note_unchecked, settle
from dbops.engine.rebuilds.steps.certify.objects import inventory
from dbops.engine.rebuilds.steps.certify.reference import (
    READ_SECONDS,
    ReferenceServer,
    connect_again,
    connect_to_target,
    filters_of,
    reference_of,
)
from dbops.engine.rebuilds.steps.certify.rows import equal_rows
from dbops.engine.rebuilds.steps.certify.snapshots import replicate_again
from dbops.engine.rebuilds.steps.replicate.replication import must_run, read_link, target_database
from dbops.engine.rebuilds.steps.run import Run, StepOutcome, again, done
from dbops.engine.rebuilds.steps.start.relaxed_durability import watch
from dbops.engine.states import Level

#: Tables that are read between two looks at the time, and for how long all together.
PORTION, OPEN_SECONDS = 400, 900.0
#: In one call: no portion begins later, no statement begins later, and how long one may take.
PORTIONS_SECONDS, BEGIN_SECONDS, BATCH_SECONDS = 6.0, 14.0, 6.0
#: Times that a part of the certificate may meet a server that is too slow for it.
SLOW_TIMES = 3

Part = Callable[[Run, Database, ReferenceServer, dict[str, Any]], StepOutcome | None]


class Certify(Step):
    """Compare the copy with the source, or with the primary where the source does not follow it, and read each of its tables."""

    name = "certify"
    title = phrase("Prove that the copy is the same data")

    def commands(self, plan: Plan) -> tuple[PlannedCommand, ...]:
        texts = (
            "# compare schemas, tables, columns, indexes, partitions, views, routines, triggers, events, accounts and grants",
            "(SELECT 0 AS i FROM `each`.`table` LIMIT 1) UNION ALL ...",
        )
        rows = PlannedCommand(
            plan.target.name, f"# compare {_amount(plan)} at one GTID position with {plan.source.name}"
        )
        both = tuple(PlannedCommand(party.name, text) for text in texts for party in (plan.source, plan.target))
        return (*both, rows) if plan.uses_gtid else both

    def cancel(self, run: Run) -> None:
        run.checkpoint.pop("certify.rows", None)  # it has values of keys
        with closing(run.target.connect(READ_SECONDS)) as target:
            replicate_again(run, target)

    def advance(self, run: Run) -> StepOutcome:
        watch(run)
        record = run.checkpoint.setdefault("certificate", {"parts": [], "unchecked": {}})
        operation = phrase("Replicating from the primary {primary}", primary=run.plan.primary.name)
        with target_database(run) as target:
            replicate_again(run, target)
            if wait := must_run(run, target, read_link(target, run.flavor), self.name, operation):
                return wait
        with reference_of(run) as reference:
            target = connect_to_target(run)
            record |= {"compared_with": reference.party.name, "is_copied": reference.is_copied}
            try:
                for name, part in PARTS.items():
                    if name not in record["parts"]:
                        if wait := _bounded(part, name, run, target, reference, record):
                            return wait
                        record["parts"].append(name)
                        return again()
            finally:
                target.close()
        return done(certificate=record)


def _bounded(
    part: Part, name: str, run: Run, target: Database, reference: ReferenceServer, record: dict[str, Any]
) -> StepOutcome | None:
    """Do some of a part. One that a server is too slow for, again and again, ends as not compared."""
    try:
        outcome = part(run, target, reference, record)
    except Unreachable:
        raise
    except RemoteFailure as error:
        if not took_too_long(error):
            raise
        times = run.checkpoint["certify.slow"] = run.checkpoint.get("certify.slow", 0) + 1
        if times < SLOW_TIMES:
            return again(1.0)
        note_unchecked(record, {name: TOO_LONG})
        run.journal.say(
            phrase("Part {name} of the certificate is not complete: {reason}.", name=name, reason=TOO_LONG),
            level=Level.WARNING,
        )
        for key in ("certify.rows", f"certify.{name}", "certify.slow"):
            run.checkpoint.pop(key, None)
        return None
    run.checkpoint.pop("certify.slow", None)
    return outcome


def _amount(plan: Plan) -> str:
    if plan.full_certificate:
        return f"all rows, for up to {plan.certificate_seconds} s and the rest after the rebuild,"
    return f"rows for up to {plan.certificate_seconds} s, ranges of large tables,"


def openable(run: Run, target: Database, reference: ReferenceServer, record: dict[str, Any]) -> StepOutcome | None:
    """Read each table of the target once, and find those that are empty there alone.

    Raises:
        RemoteFailure: ``certificate.unreadable``, ``certificate.rows_differ``.
    """
    began = run.clock.now()
    fresh: dict[str, Any] = {"done": 0, "last": None, "since": began, "empty": [], "again": []}
    state = run.checkpoint.setdefault("certify.open", fresh)
    record["opened"] = state["done"]
    tables = tables_of(target)
    while (left := _unread(state, tables)) and run.clock.now() - state["since"] < OPEN_SECONDS:
        _read_portion(run, reference, record, left[:PORTION], lambda: run.clock.now() - began < BEGIN_SECONDS)
        run.journal.progress(note=phrase("{done} of {count} tables read", done=state["done"], count=len(tables)))
        if run.clock.now() - began >= PORTIONS_SECONDS:
            return again()
    if left:
        note_unchecked(record, {phrase("the other tables"): phrase("the time for opening them was used up")})
    record["opened"] = state["done"]
    return _must_have_rows(run, target, reference, record, [Table(*names) for names in state["empty"]])


def _unread(state: dict[str, Any], tables: list[Table]) -> list[Table]:
    last = Table(*state["last"]) if state["last"] else None
    missed = {Table(*names) for names in state["again"]}
    return [table for table in tables if last is None or table > last or table in missed]


def _read_portion(
    run: Run, reference: ReferenceServer, record: dict[str, Any], portion: list[Table], may_begin: Callable[[], bool]
) -> None:
    """Read some tables, and note those that are to be read again: the time was over before them."""
    state = run.checkpoint["certify.open"]
    opened = open_tables(lambda: connect_to_target(run, BATCH_SECONDS), portion, may_begin)
    unread, missed = _must_be_readable(run, reference, record, opened, may_begin)
    known = opened.with_rows | opened.unreached | opened.errors.keys() | opened.slow.keys()
    empty = [one for one in portion if one not in known and _has_data(one)]
    there = Opened()
    if empty:
        there = open_tables(lambda: connect_again(run, reference, BATCH_SECONDS), empty, may_begin)
        note_unchecked(record, {f"rows of {table}": why for table, why in there.slow.items()})
    again_later = opened.unreached | missed | there.unreached
    state["empty"] += [[table.schema, table.name] for table in sorted(there.with_rows)]
    state["done"] += len(set(portion) - again_later - unread)
    state["again"] = [[table.schema, table.name] for table in sorted(again_later)]
    last = max(portion[-1], Table(*state["last"])) if state["last"] else portion[-1]
    state["last"] = [last.schema, last.name]


def _has_data(table: Table) -> bool:
    return table.engine not in FORGETFUL and table.schema != "mysql"


def _must_be_readable(
    run: Run, reference: ReferenceServer, record: dict[str, Any], opened: Opened, may_begin: Callable[[], bool]
) -> tuple[set[Table], set[Table]]:
    """Return the tables that no one can read, and those that the compared server did not reach in time.

    Raises:
        RemoteFailure: ``certificate.unreadable``.
    """
    note_unchecked(record, {f"table {table}": why for table, why in opened.slow.items()})
    if not opened.errors:
        return set(opened.slow), set()
    there = open_tables(lambda: connect_again(run, reference, BATCH_SECONDS), sorted(opened.errors), may_begin)
    gone = set(opened.errors) - set(tables_again(run))
    same = {table: there.errors[table] for table in opened.errors if table in there.errors and table not in gone}
    name = reference.party.name
    note_unchecked(
        record, {f"table {table}": f"it cannot be read on {name} either: {cause}" for table, cause in same.items()}
    )
    settled = gone | set(same) | there.unreached
    bad = {table: cause for table, cause in sorted(opened.errors.items()) if table not in settled}
    if bad:
        record["unreadable"] = [f"{table}: {cause}" for table, cause in bad.items()][:LISTED]
        raise RemoteFailure(
            "certificate.unreadable",
            phrase("Reading the tables of {target}", target=run.plan.target.name),
            cause=listed(record["unreadable"]),
        )
    return set(opened.slow) | set(same) | gone, there.unreached


def tables_again(run: Run) -> list[Table]:
    """Return the tables of now: one that was dropped since is no error."""
    with closing(connect_to_target(run)) as target:
        return tables_of(target)


def _must_have_rows(
    run: Run, target: Database, reference: ReferenceServer, record: dict[str, Any], suspects: list[Table]
) -> StepOutcome | None:
    """Look again at tables that were empty on the target alone."""

    def look() -> dict[str, str]:
        began = run.clock.now()

        def may_begin() -> bool:
            return run.clock.now() - began < BEGIN_SECONDS

        here = open_tables(lambda: connect_to_target(run, BATCH_SECONDS), suspects, may_begin)
        there = open_tables(lambda: connect_again(run, reference, BATCH_SECONDS), suspects, may_begin)
        unknown = {table for one in (here, there) for table in (*one.slow, *one.unreached)}
        note_unchecked(record, {f"rows of {table}": TOO_LONG for table in unknown})
        seen = [table for table in suspects if table not in unknown]
        empty = [table for table in seen if table not in here.with_rows and table in there.with_rows]
        return {str(table): "empty" for table in empty}

    found = settle(run, "certify.empty", target, reference, look, record) if suspects else {}
    if isinstance(found, StepOutcome):
        return found
    if found and not filters_of(run, target, reference):
        record["differences"] = [f"table {name} (empty)" for name in sorted(found)][:LISTED]
        raise RemoteFailure(
            "certificate.rows_differ",
            phrase(
                "Comparing the rows of {target} with those of {reference}",
                target=run.plan.target.name,
                reference=reference.party.name,
            ),
            cause=listed([f"{name} is empty" for name in sorted(found)]),
        )
    run.journal.say(
        phrase(
            "All {count} tables of {target} were opened and read.",
            count=record["opened"],
            target=run.plan.target.name,
        )
    )
    return None


#: Tables first: the inventory shows one that cannot be opened as changed.
PARTS: dict[str, Part] = {"openable": openable, "inventory": inventory, "rows": equal_rows}
