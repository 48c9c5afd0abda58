"""Compare rows of both servers in rounds of some seconds, each at a position of its own, until the time is used up."""

import random
from typing import Any

from dbops.engine.errors import RemoteFailure
from dbops.engine.phrases import phrase
from dbops.engine.ports import Database
from dbops.engine.rebuilds.certificate.record import REST
from dbops.engine.rebuilds.certificate.sizes import comparable, large_of
from dbops.engine.rebuilds.steps.certify.reference import ReferenceServer, filters_of, version_of
from dbops.engine.rebuilds.steps.certify.rounds import ROUND_SECONDS, TRIES, ComparisonRound, leave_out, take_differing
from dbops.engine.rebuilds.steps.certify.snapshots import common_snapshot
from dbops.engine.rebuilds.steps.run import Run, StepOutcome, again

LISTED = 200


def equal_rows(run: Run, target: Database, reference: ReferenceServer, record: dict[str, Any]) -> StepOutcome | None:
    """Compare rows: small tables whole, ranges of large ones; with ``full_certificate`` all of them as far as the time suffices.

    The rest is left to a comparison after the rebuild (``REST``).

    Raises:
        RemoteFailure: ``certificate.rows_differ``.
    """
    state = run.checkpoint.get("certify.rows")
    if state is None:
        if why := why_not(run, target, reference):
            leave_out(record, why, phrase("all rows"))
            run.journal.say(phrase("Rows are not compared: {why}.", why=why))
            return None
        state = run.checkpoint["certify.rows"] = _begin(run, target, record)
        if run.plan.certificate_seconds:
            return again()
        _continue_later(run, target, record, state)
        return None
    began = run.clock.now()
    try:
        with common_snapshot(run, reference) as (position, here, there):
            if not position:
                return _missed(run, target, record, state)
            record["rows"].setdefault("from", position)
            record["rows"]["until"] = position
            is_over = ComparisonRound(run, record, state, here, there, run.clock.now() + ROUND_SECONDS).work()
    finally:
        state["spent"] += run.clock.now() - began
    run.journal.progress(
        note=phrase(
            "{count} rows of {tables} tables are equal", count=record["rows"]["count"], tables=record["rows"]["tables"]
        )
    )
    _must_be_equal(run, reference, record, state)
    if is_over and not state["again"]:
        _end(run, record)
        return None
    if state["spent"] >= run.plan.certificate_seconds:
        if not run.plan.full_certificate:
            state["again"] = [one for one in state["again"] if one["tries"]]
        # those that differ are looked at again all the same
        if not any(one["tries"] for one in state["again"]):
            _use_up(run, target, record, state, phrase("the time was used up"), phrase("the other tables"))
            return None
    return again()


def _use_up(run: Run, target: Database, record: dict[str, Any], state: dict[str, Any], reason: str, what: str) -> None:
    """End before all is compared: the rest is left to a later comparison, or left out."""
    if run.plan.full_certificate:
        _continue_later(run, target, record, state)
    else:
        leave_out(record, reason, what)
        _end(run, record)


def _continue_later(run: Run, target: Database, record: dict[str, Any], state: dict[str, Any]) -> None:
    """Leave to a later comparison what is left: whole tables, so that no value of a key is kept."""
    waiting = [one for one in state["again"] if one["range"] is None]
    suspects = [one["table"] for one in state["again"] if one["range"] is not None]
    run.checkpoint[REST] = {
        "small": state["small"],
        "sized": state["sized"],
        "whole": [*state["whole"], *(names for names in suspects if names not in state["whole"])],
        "again": waiting,
        "server": identity_of(target),
    }
    record["rows"]["full"], record["continues"] = False, True
    _end(run, record)


def identity_of(database: Database) -> list[str]:
    """Return what a server has that another one at its address lacks. Raises as ``Database.query``."""
    row = database.query("SELECT @@server_id AS id, @@hostname AS host, @@port AS port, @@datadir AS datadir")[0]
    return [str(row[name]) for name in ("id", "host", "port", "datadir")]


def why_not(run: Run, target: Database, reference: ReferenceServer) -> str:
    """Return why no rows can be compared, empty if they can. Raises as ``Database.query``."""
    if not (run.plan.full_certificate or run.plan.certificate_seconds):
        return phrase("the settings give no time for it")
    if not run.plan.uses_gtid:
        return phrase("without GTID there is no common position")
    series = [version.split(".")[:2] for version in (version_of(target), version_of(reference.database))]
    if series[0] != series[1]:
        return phrase("the servers are of different series")
    row = reference.database.query("SELECT @@log_bin AS logs, @@log_slave_updates AS updates")[0]
    if not int(row["logs"]) or not (reference.is_primary or int(row["updates"])):
        return phrase("the binary log of {reference} does not have all changes", reference=reference.party.name)
    return filters_of(run, target, reference)


def _begin(run: Run, target: Database, record: dict[str, Any]) -> dict[str, Any]:
    tables, others = comparable(target)
    record["left_out"] = {}  # of an earlier, failed run of this step
    for table in others:
        leave_out(record, phrase("its engine has no snapshots"), f"{table} ({table.engine or '?'})")
    large = [[table.schema, table.name] for table in large_of(target, tables)]
    record["rows"] = {"tables": 0, "count": 0, "ranges": 0, "full": run.plan.full_certificate}
    return {
        "spent": 0.0,
        "missed": 0,
        "small": None,
        "sized": large,
        "large": list(large),
        "whole": list(large) if run.plan.full_certificate else [],
        "sampled": {},
        "at": None,
        "again": [],
        "fraction": random.random(),  # noqa: S311 - which rows are looked at, not a secret
    }


def _missed(run: Run, target: Database, record: dict[str, Any], state: dict[str, Any]) -> StepOutcome | None:
    state["missed"] += 1
    if state["missed"] < TRIES:
        return again(1.0)
    _use_up(run, target, record, state, phrase("both servers did not come to one position"), phrase("the other rows"))
    return None


def _must_be_equal(run: Run, reference: ReferenceServer, record: dict[str, Any], state: dict[str, Any]) -> None:
    names = sorted({".".join(one["table"]) for one in take_differing(record, state)})
    if names:
        del run.checkpoint["certify.rows"]  # it has values of keys
        record["differences"] = [f"table {name} (rows)" for name in names][:LISTED]
        raise RemoteFailure(
            "certificate.rows_differ",
            phrase(
                "Comparing the rows of {target} with those of {reference}",
                target=run.plan.target.name,
                reference=reference.party.name,
            ),
            cause=phrase(
                "at {until}, rows differ in {tables}", until=record["rows"]["until"], tables=", ".join(names[:10])
            ),
        )


def _end(run: Run, record: dict[str, Any]) -> None:
    del run.checkpoint["certify.rows"]
    found = record["rows"]
    run.journal.say(
        phrase(
            "{count} rows of {tables} tables are equal at {position}.",
            count=found["count"],
            tables=found["tables"],
            position=found.get("until", phrase("no position")),
        )
    )
