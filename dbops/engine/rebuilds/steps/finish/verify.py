"""Verify the copy before the old data is removed."""

from dbops.engine.errors import RemoteFailure
from dbops.engine.facts.instance import ReplicationFacts
from dbops.engine.phrases import phrase
from dbops.engine.rebuilds.plan import Plan, PlannedCommand
from dbops.engine.rebuilds.steps.base import Step
from dbops.engine.rebuilds.steps.replicate.rejoin import rejoin, rejoin_commands
from dbops.engine.rebuilds.steps.replicate.replication import (
    fail_on_error,
    read_link,
    restart_for_retry,
    start_if_stopped,
    target_database,
)
from dbops.engine.rebuilds.steps.replicate.replication_kept import (
    is_close,
    keep_commands,
    keep_replication,
    start_again,
)
from dbops.engine.rebuilds.steps.run import Run, StepOutcome, again, done
from dbops.engine.rebuilds.steps.start.quiet_settings import end_commands, end_quiet
from dbops.engine.rebuilds.steps.start.relaxed_durability import (
    end_relaxation,
    restore_commands,
    stop_sync,
    watch,
)

#: How long a replica may take to catch up with the primary first and to stay caught up; more if the required time is long.
VERIFY_SECONDS = 1800.0
STEADY_PERIODS = 10


class Verify(Step):
    """Verify that the target replicates from the primary, stays caught up, has its own settings and identity, and is read-only."""

    name = "verify"
    title = phrase("Verify that the replica serves and keeps up")

    def commands(self, plan: Plan) -> tuple[PlannedCommand, ...]:
        return (*end_commands(plan), *restore_commands(plan), *keep_commands(plan), *rejoin_commands(plan))

    def cancel(self, run: Run) -> None:
        stop_sync(run)
        start_again(run)

    def advance(self, run: Run) -> StepOutcome:
        operation, target = phrase("Verifying {target}", target=run.plan.target.name), run.plan.target
        watch(run)
        with target_database(run) as database:
            row = database.query("SELECT @@server_id AS server_id, @@read_only AS read_only")[0]
            if run.is_rejoining and (wait := rejoin(run, database)):
                return wait
            link = read_link(database, run.flavor)
            if restart_for_retry(run, database, link, "verify"):
                return again(1.0)
            fail_on_error(link, operation, run)
            if start_if_stopped(run, database, link, "verify"):
                return again(0.2)
            if int(row["server_id"]) != target.configured_server_id or not int(row["read_only"]):
                raise RemoteFailure(
                    "verify.identity",
                    operation,
                    cause=phrase(
                        "server_id {server_id}, read_only {read_only}",
                        server_id=row["server_id"],
                        read_only=row["read_only"],
                    ),
                )
            run.checkpoint.setdefault("verify.began", run.clock.now())
            if not is_close(run, link, run.followed):
                return _behind(run, link, operation)
            end_quiet(run, database)
            if wait := end_relaxation(run, database):
                run.checkpoint.pop("verify.steady_since", None)
                return wait
            if wait := _keeps_up(run) or keep_replication(run, database) or rejoin(run, database):
                return wait
        return _verified(run)


def _behind(run: Run, link: ReplicationFacts | None, operation: str) -> StepOutcome:
    run.checkpoint.pop("verify.steady_since", None)
    limit, steady_seconds = run.settings.catch_up_lag_seconds, run.settings.verify_steady_seconds
    if run.clock.now() - run.checkpoint["verify.began"] > max(VERIFY_SECONDS, STEADY_PERIODS * steady_seconds):
        raise RemoteFailure(
            "verify.lag",
            operation,
            cause=phrase("its lag does not stay below {limit} s", limit=f"{limit:.0f}"),
        )
    lag = f"{link.lag_seconds:.0f} s" if link and link.lag_seconds is not None else phrase("unknown")
    run.journal.progress(
        note=phrase(
            "lag {lag}; healthy when below {limit} s for {wanted} s",
            lag=lag,
            limit=f"{limit:.0f}",
            wanted=f"{steady_seconds:.0f}",
        )
    )
    return again(0.4)


def _keeps_up(run: Run) -> StepOutcome | None:
    """Return when to check again; ``None`` if the target has been caught up for long enough."""
    steady_seconds = run.settings.verify_steady_seconds
    now = run.clock.now()
    steady = now - run.checkpoint.setdefault("verify.steady_since", now)
    if steady < steady_seconds:
        limit = run.settings.catch_up_lag_seconds
        note = phrase(
            "lag below {limit} s for {steady} of {wanted} s",
            limit=f"{limit:.0f}",
            steady=f"{steady:.0f}",
            wanted=f"{steady_seconds:.0f}",
        )
        run.journal.progress(note=note, eta_seconds=steady_seconds - steady)
        return again(min(0.4, steady_seconds - steady))
    return None


def _verified(run: Run) -> StepOutcome:
    target = run.plan.target
    run.journal.say(
        phrase("{target} replicates from {source} and keeps up.", target=target.name, source=run.followed.name),
        host=target.host,
    )
    run.checkpoint["verified"] = True
    return done()
