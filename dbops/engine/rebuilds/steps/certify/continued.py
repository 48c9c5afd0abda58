"""Compare after the rebuild what its certificate left: one round at one position in each call.

It is right under writes for the reason that the certificate is: each statement runs on both servers in snapshots of one GTID
position, and only what differs at several positions counts.
"""

from collections.abc import Callable
from contextlib import closing
from typing import Any

from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.flavors.channels import read_channels
from dbops.engine.phrases import phrase
from dbops.engine.ports import Database
from dbops.engine.rebuilds.certificate.bounded import TOO_LONG, took_too_long
from dbops.engine.rebuilds.certificate.openable import Table
from dbops.engine.rebuilds.certificate.record import RECORD, REST
from dbops.engine.rebuilds.certificate.sizes import about_rows, comparable
from dbops.engine.rebuilds.steps.certify.looks import listed
from dbops.engine.rebuilds.steps.certify.reference import (
    MAX_LAG_SECONDS,
    ReferenceServer,
    connect_to_target,
    reference_of,
)
from dbops.engine.rebuilds.steps.certify.rounds import ROUND_SECONDS, ComparisonRound, leave_out, take_differing
from dbops.engine.rebuilds.steps.certify.rows import LISTED, identity_of, why_not
from dbops.engine.rebuilds.steps.certify.snapshots import common_snapshot, replicate_again
from dbops.engine.rebuilds.steps.replicate.replication import is_attached_to
from dbops.engine.rebuilds.steps.run import Run, StepOutcome, done
from dbops.engine.states import Level

#: Between two looks at a server that cannot be compared now, and how long that may last all together.
WAIT_SECONDS, PATIENCE_SECONDS = 15.0, 24 * 3600.0
#: Rounds in succession that may end without a common position, or with a server that is too slow.
MISSES = 40
#: Differing ranges of one table; its other ranges are then not compared.
RANGES = 20
MANY = "it differs in many ranges"


def waits(run: Run, reason: str) -> StepOutcome:
    """Return that nothing can be compared now.

    Raises:
        RemoteFailure: it waits for too long (``comparison.not_possible``).
    """
    since = run.checkpoint.setdefault("waiting.since", run.clock.now())
    if run.clock.now() - since > PATIENCE_SECONDS:
        raise _not_possible(
            run,
            phrase(
                "it waited for {hours} h: {reason}",
                hours=f"{PATIENCE_SECONDS / 3600:.0f}",
                reason=reason,
            ),
        )
    return StepOutcome(False, {"waits": reason}, WAIT_SECONDS)


def continue_comparison(run: Run, may_pause: Callable[[], str], pause_seconds: float) -> StepOutcome:
    """Compare for one round. Call it again until it is done.

    Args:
        may_pause: asked before the target's replication stops for a moment; returns what is in the way, empty if nothing is.
        pause_seconds: after each round, so that both servers have time for others.

    Raises:
        RemoteFailure: rows differ (``comparison.differs``), the target does not replicate as after the rebuild
            (``comparison.replication``), another server answers (``comparison.other_server``), or there is nothing to compare by
            (``comparison.not_possible``).
        Unreachable: a server does not answer.
    """
    with closing(connect_to_target(run)) as target:
        server = identity_of(target)  # connected before the lease is checked, as in ``common_snapshot``
        run.journal.check()
        _must_be(run, run.plan.target.name, server, run.checkpoint[REST]["server"])
        replicate_again(run, target)
        if reason := _not_now(run, target):
            return waits(run, reason)
        with reference_of(run) as reference:
            party = reference.party
            if party.server_id is not None:
                _must_be(run, party.name, identity_of(reference.database)[:1], [str(party.server_id)])
            if why := why_not(run, target, reference):
                raise _not_possible(run, why)
            try:
                return _round(run, target, reference, may_pause, pause_seconds)
            except Unreachable:
                raise
            except RemoteFailure as error:
                if not took_too_long(error):
                    raise
                return _missed(run, TOO_LONG)


def _must_be(run: Run, name: str, found: list[str], known: list[str]) -> None:
    if found != known:
        raise RemoteFailure(
            "comparison.other_server",
            _operation(run),
            cause=phrase(
                "the server of {name} is {found}, not {known}",
                name=name,
                found=", ".join(found),
                known=", ".join(known),
            ),
        )


def _not_now(run: Run, target: Database) -> str:
    """Return why the target cannot be compared now, empty if it can. Raises ``RemoteFailure`` if it never can."""
    links = read_channels(target, run.flavor)
    if len(links) != 1 or not is_attached_to(links[0], run.followed):
        sources = ", ".join(f"{link.source_host}:{link.source_port}" for link in links) or phrase("no server")
        raise RemoteFailure(
            "comparison.replication",
            _operation(run),
            cause=phrase(
                "{target} replicates from {sources}, not from {source}",
                target=run.plan.target.name,
                sources=sources,
                source=run.followed.name,
            ),
        )
    lag = links[0].lag_seconds
    if not links[0].is_running:
        return phrase("replication of {target} is stopped", target=run.plan.target.name)
    if lag is None or lag > MAX_LAG_SECONDS:
        return phrase("{target} is behind", target=run.plan.target.name)
    return ""


def _round(
    run: Run, target: Database, reference: ReferenceServer, may_pause: Callable[[], str], pause_seconds: float
) -> StepOutcome:
    record, state = _known(run, target, reference)
    if reason := may_pause():
        return waits(run, reason)
    with common_snapshot(run, reference) as (position, here, there):
        if not position:
            return _missed(run, phrase("both servers did not come to one position"))
        run.checkpoint.pop("waiting.since", None)
        run.checkpoint["missed"] = 0
        record["compared_with"] = reference.party.name
        record["rows"].setdefault("from", position)
        record["rows"]["until"] = position
        is_over = ComparisonRound(run, record, state, here, there, run.clock.now() + ROUND_SECONDS).work()
    _note_differing(run, record, state)
    if not is_over or state["again"]:
        return StepOutcome(False, wait_seconds=pause_seconds)
    end(run)
    if record["differences"]:
        raise RemoteFailure("comparison.differs", _operation(run), cause=_told(record))
    return done()


def _known(run: Run, target: Database, reference: ReferenceServer) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the record and the state of the rounds; both begin with what the rebuild left."""
    state = run.checkpoint.get("certify.rows")
    if state is None:
        rest = run.checkpoint[REST]
        begun: dict[str, Any] = {"large": [], "sampled": {}, "at": None, "number": 0, "fraction": 0.0}
        state = run.checkpoint["certify.rows"] = {
            **begun,
            **{name: rest[name] for name in ("small", "sized", "whole", "again")},
        }
        rows = {"tables": 0, "count": 0, "ranges": 0}
        run.checkpoint[RECORD] = {
            "compared_with": reference.party.name,
            "rows": rows,
            "total": _total(target, rest),
            "left_out": {},
            "differences": [],
            "differing": 0,
        }
    return run.checkpoint[RECORD], state


def _total(target: Database, rest: dict[str, Any]) -> dict[str, int | None]:
    """Return how many tables are left, and about how many rows they have."""
    whole = {Table(*names) for names in rest["whole"]}
    last = Table(*rest["small"]) if rest["small"] else None
    again = {Table(*one["table"]) for one in rest["again"]}
    tables, _ = comparable(target)
    large = {Table(*names) for names in rest["sized"]}
    small = {one for one in tables if one not in large and (last is None or one > last)}
    left = [one for one in tables if one in whole or one in again or one in small]
    return {"tables": len(left), "rows": about_rows(target, left)}


def _note_differing(run: Run, record: dict[str, Any], state: dict[str, Any]) -> None:
    for one in take_differing(record, state):
        name = ".".join(one["table"])
        record["differing"] += 1
        if len(record["differences"]) < LISTED:
            record["differences"].append({"table": name, "rows": one["rows"] or "all rows"})
        run.journal.say(
            phrase("Rows of {name} differ ({rows}).", name=name, rows=one["rows"] or phrase("all rows")),
            level=Level.ERROR,
        )
        of_table = sum(known["table"] == name for known in record["differences"])
        if of_table >= RANGES and one["table"] in state["whole"]:
            state["whole"].remove(one["table"])
            state["at"], state["number"] = None, 0
            state["again"] = [other for other in state["again"] if other["table"] != one["table"]]
            leave_out(record, MANY, phrase("{table}: its other ranges", table=name))


def _missed(run: Run, reason: str) -> StepOutcome:
    run.checkpoint["missed"] = run.checkpoint.get("missed", 0) + 1
    if run.checkpoint["missed"] >= MISSES:
        raise _not_possible(run, reason)
    return waits(run, reason)


def end(run: Run) -> None:
    """Forget values of keys. What was compared stays."""
    run.checkpoint.pop("certify.rows", None)


def stop(run: Run) -> None:
    """Let the target replicate again if the comparison stopped it, and forget values of keys.

    Raises:
        Unreachable, RemoteFailure: see ``Database.query``; ``comparison.other_server``: there is nothing to start there.
    """
    end(run)
    if not run.checkpoint.get("certify.paused"):
        return
    with closing(connect_to_target(run)) as target:
        server = identity_of(target)
        run.journal.check()
        _must_be(run, run.plan.target.name, server, run.checkpoint[REST]["server"])
        replicate_again(run, target)


def _operation(run: Run) -> str:
    return phrase("Comparing all rows of {target}", target=run.plan.target.name)


def _not_possible(run: Run, why: str) -> RemoteFailure:
    return RemoteFailure("comparison.not_possible", _operation(run), cause=why)


def _told(record: dict[str, Any]) -> str:
    lines = [f"{one['table']} ({one['rows']})" for one in record["differences"]]
    return phrase("at {until}, rows differ in {tables}", until=record["rows"]["until"], tables=listed(lines))
