"""Repoint without GTID: source and target stop at one point for a moment, known in both coordinate systems."""

from contextlib import closing

from dbops.engine.errors import RemoteFailure
from dbops.engine.flavors.base import Coordinates
from dbops.engine.phrases import phrase
from dbops.engine.ports import Database
from dbops.engine.rebuilds.steps.replicate.replication import fail_on_error, point_to_primary, read_link
from dbops.engine.rebuilds.steps.run import Run, StepOutcome, again
from dbops.engine.rebuilds.steps.source.access import have_guard
from dbops.engine.rebuilds.steps.source.release import close_source, pause_source, resume_source

#: How long the source's applier may be stopped for one attempt. The target may never reach the point that was read: the source
#: has rotated its log since, or received writes. The guard does not help here: its heartbeats continue.
PAUSE_SECONDS = 30.0
#: The time for the source to catch up between two attempts.
REST_SECONDS = 15.0
ATTEMPTS = 10


def repoint_by_position(run: Run, database: Database) -> StepOutcome:
    """Stop the source's applier for a moment, so that one point is known in both coordinate systems. For replication without GTID.

    Read on the stopped source: its position in the primary's logs, and the same point in its own logs. When the target has exactly
    reached the latter, it continues from the primary at the former. The guard on the source resumes the source if the driver dies in
    between.
    """
    attempt = run.checkpoint.setdefault("repoint.attempt", 1)
    if "repoint.point" not in run.checkpoint:
        have_guard(run)
        run.checkpoint["repoint.paused_at"] = run.clock.now()
        pause_source(run, f"repoint.pause.{attempt}")
        with closing(run.source.connect(10.0)) as source:
            link = read_link(source, run.flavor)
            own = source.query(run.flavor.show_binlog_position)[0]
        if link is None:
            raise RemoteFailure(
                "replication.error",
                phrase("Reading the position of {source}", source=run.plan.source.name),
                cause=phrase("it no longer replicates"),
                state=phrase(
                    "{target} serves and replicates from {source}.",
                    target=run.plan.target.name,
                    source=run.plan.source.name,
                ),
                next_step=phrase(
                    "Check replication on {source}. Then resume the rebuild.", source=run.plan.source.name
                ),
            )
        _same_primary(run, f"{link.source_host}:{link.source_port}")
        run.checkpoint["repoint.point"] = {
            "source": [own["File"], int(own["Position"])],
            "primary": [link.relay_source_log_file, link.exec_source_log_pos],
        }
    result = run.act(
        run.source, "repoint.heartbeat", "touch heartbeat", "touch heartbeat; [ ! -e paused ] || echo paused"
    )
    if "paused" not in result.stdout:  # dbops was silent for too long, and the guard released the source
        return _another_attempt(run)
    here = read_link(database, run.flavor)
    point = run.checkpoint["repoint.point"]
    if here is None or [here.relay_source_log_file, here.exec_source_log_pos] != point["source"]:
        fail_on_error(here, f"Waiting for {run.plan.target.name} to reach the position of {run.plan.source.name}", run)
        if run.clock.now() - run.checkpoint["repoint.paused_at"] > PAUSE_SECONDS:
            return _let_go(run)
        return again(0.2)
    log_file, log_pos = point["primary"]
    point_to_primary(run, database, start=Coordinates(log_file=log_file, log_pos=log_pos))
    close_source(run)
    return again(0.2)


def _same_primary(run: Run, upstream: str) -> None:
    """Check whom the source replicates from: its position belongs to that server's logs, which differ after a failover."""
    before = run.checkpoint.get("source_found", {}).get("from", upstream)
    if upstream != before:
        resume_source(run, f"repoint.resume.{run.checkpoint['repoint.attempt']}")
        raise RemoteFailure(
            "repoint.not_primary",
            phrase("Reading the position of {source}", source=run.plan.source.name),
            cause=phrase(
                "it replicates from {upstream}; at the start it replicated from {before}",
                upstream=upstream,
                before=before,
            ),
        )


def _let_go(run: Run) -> StepOutcome:
    """Resume the source after the point was not reached in time; it is stopped again a little later."""
    attempt = run.checkpoint["repoint.attempt"]
    resume_source(run, f"repoint.resume.{attempt}")
    if attempt >= ATTEMPTS:
        raise RemoteFailure(
            "repoint.no_common_point",
            phrase(
                "Waiting for {target} to reach the position of {source}",
                target=run.plan.target.name,
                source=run.plan.source.name,
            ),
            cause=phrase(
                "not reached within {seconds} s, {attempts} times",
                seconds=f"{PAUSE_SECONDS:.0f}",
                attempts=attempt,
            ),
        )
    _another_attempt(run)
    return again(REST_SECONDS)


def _another_attempt(run: Run) -> StepOutcome:
    """Prepare another attempt, which stops the source's applier under a live guard: the point is no longer known."""
    run.checkpoint.pop("repoint.point", None)
    run.checkpoint["repoint.attempt"] += 1
    return again(0.2)
