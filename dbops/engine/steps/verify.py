"""The last look before the old data may go."""

from dbops.engine.errors import RemoteFailure
from dbops.engine.steps.base import Step
from dbops.engine.steps.replication import fail_on_error, is_attached_to, read_link, restart_for_retry, target_database
from dbops.engine.steps.run import Outcome, Run, again, done

#: How long a replica may take to be close behind the primary for the first time and to stay there.
VERIFY_SECONDS = 1800.0


class Verify(Step):
    """Replicating from the primary, close behind, and staying so; itself and read-only."""

    name = "verify"
    title = "Verify that the replica serves and stays caught up"

    def advance(self, run: Run) -> Outcome:
        doing, target = f"Verifying {run.plan.target.name}", run.plan.target
        with target_database(run) as database:
            row = database.query("SELECT @@server_id AS server_id, @@read_only AS read_only")[0]
            link = read_link(database, run.flavor)
            if restart_for_retry(run, database, link, "verify"):
                return again(1.0)
        fail_on_error(link, doing, run)
        if int(row["server_id"]) != target.configured_server_id or not int(row["read_only"]):
            raise RemoteFailure(
                "verify.identity", doing, found=f"server_id {row['server_id']}, read_only {row['read_only']}"
            )
        now = run.clock.now()
        close = link is not None and link.is_running and is_attached_to(link, run.plan.primary)
        close = (
            close
            and link is not None
            and link.lag_seconds is not None
            and link.lag_seconds <= run.settings.catch_up_lag_seconds
        )
        began = run.memory.setdefault("verify.began", now)
        if not close:
            run.memory.pop("verify.steady_since", None)
            if now - began > VERIFY_SECONDS:
                raise RemoteFailure(
                    "verify.lag",
                    doing,
                    found=f"it does not stay within {run.settings.catch_up_lag_seconds:.0f} s of the primary",
                    left=f"{target.name} serves and replicates from {run.plan.primary.name}; its old data is kept.",
                    next_step="Find out why it falls behind. The copy itself is whole.",
                )
            run.journal.progress(
                note=f"lag {link.lag_seconds if link and link.lag_seconds is not None else 'not known'}"
            )
            return again(0.4)
        since = run.memory.setdefault("verify.steady_since", now)
        if now - since < run.settings.verify_steady_seconds:
            return again(0.4)
        run.journal.say(
            f"{target.name} replicates from {run.plan.primary.name} and has stayed caught up.", host=target.host
        )
        run.memory["verified"] = True
        return done()
