"""Roll back: return the old data that a failed rebuild moved aside, and start it."""

from contextlib import closing

from dbops.engine.errors import Refused
from dbops.engine.hosts.jobs import job_must_succeed, pairs
from dbops.engine.hosts.local_login import local_login
from dbops.engine.hosts.scripts import load
from dbops.engine.phrases import phrase
from dbops.engine.ports import Database, JobState
from dbops.engine.rebuilds.plan import Plan, PlannedCommand
from dbops.engine.rebuilds.steps.base import JobStep, Step
from dbops.engine.rebuilds.steps.commands import split_command
from dbops.engine.rebuilds.steps.finish.clean_up import inspect_unless_verified, remove_moved
from dbops.engine.rebuilds.steps.preflight.data_location import describe_data_location, inspect_host, old_data_is_aside
from dbops.engine.rebuilds.steps.replicate.replication import read_link
from dbops.engine.rebuilds.steps.run import Run, StepOutcome, again, done
from dbops.engine.rebuilds.steps.start.prepare_and_start import StartServer
from dbops.engine.states import Level

#: How long old data may take to replicate again before its state is logged as found.
REPLICATES_SECONDS = 15.0


def failed_path(plan: Plan, copy_run: str) -> str:
    """Return the path for the discarded copy: beside the old data, on the same file system."""
    return plan.aside_path.replace(".dbops-old-", ".dbops-failed-") if plan.aside_path else f".dbops-failed-{copy_run}"


class FindOldData(Step):
    """Check on the host that the old data is where it was moved to, before anything is stopped."""

    name = "find-old-data"
    title = phrase("Check the old data")
    is_destructive = False

    def advance(self, run: Run) -> StepOutcome:
        inspect_host(run)
        if self._is_back(run):
            run.journal.say(phrase("The old data is already in place."), host=run.plan.target.host)
            return done()
        if not old_data_is_aside(run) or run.checkpoint["found"].get("aside") != run.checkpoint["aside_identity"]:
            raise Refused(
                "old.not_found",
                phrase("Checking the old data of {target}", target=run.plan.target.name),
                cause=phrase("{path} is not the directory that was moved aside", path=run.plan.aside_path),
                state=describe_data_location(run),
            )
        run.journal.say(phrase("The old data is at {path}.", path=run.plan.aside_path), host=run.plan.target.host)
        return done()

    def _is_back(self, run: Run) -> bool:
        """Return whether an earlier driver moved the old data back and died before logging it: then only the start remains."""
        found = run.checkpoint["found"]
        in_place = found.get("datadir") == run.checkpoint["aside_identity"]
        return in_place and not found.get("aside") and not found.get("new")


class Rollback(JobStep):
    """Stop the server on the copy, move the copy aside and the old data back: in one script with its own checks."""

    name = "rollback"
    title = phrase("Put the old data back")
    is_cancellable = False

    def commands(self, plan: Plan) -> tuple[PlannedCommand, ...]:
        target, failed = plan.target, failed_path(plan, "RUN")
        return (
            PlannedCommand(target.name, "# on the host: check mark, identity, role and replicas first"),
            PlannedCommand(target.name, f"{target.stop_command}   # if a server runs on the copy"),
            PlannedCommand(target.name, f"mv -T -n {target.datadir} {failed}"),
            PlannedCommand(target.name, f"mv -T -n {plan.aside_path} {target.datadir}"),
        )

    def stall_seconds(self, run: Run) -> float:
        return run.settings.stall_stop_seconds

    def start(self, run: Run) -> JobState:
        plan, target, admin = run.plan, run.plan.target, run.accounts.target
        run.checkpoint.pop("found", None)  # outdated from here on
        return run.start_job(
            run.target,
            self.name,
            "\n".join(command.text for command in self.commands(plan)),
            load("common", "service", "rollback"),
            target.datadir,
            run.copy_run,
            plan.aside_path,
            run.checkpoint["aside_identity"],
            failed_path(plan, run.copy_run),
            str(target.configured_server_id or ""),
            target.socket,
            plan.programs["target.client"],
            target.machine,
            target.os_user,
            *split_command(target.stop_command),
            secrets={"admin.cnf": local_login(run.flavor, admin, run.target.jobs.run_directory)},
        )

    def finish(self, run: Run, state: JobState) -> StepOutcome:
        job_must_succeed(state, phrase("Rolling back {target}", target=run.plan.target.name))
        found = pairs(state.tails.get("out", ""))
        run.checkpoint["old_identity"], run.checkpoint["failed_identity"] = (
            found["identity"],
            found.get("failed_identity", ""),
        )
        run.checkpoint["aside_path"] = ""
        run.journal.say(
            phrase("The old data is back at {datadir}.", datadir=run.plan.target.datadir), host=run.plan.target.host
        )
        return done()


class StartOld(StartServer):
    """Start the server on its old data, if it ran before the rebuild."""

    name = "start-old"
    title = phrase("Start the target on its old data")

    def data(self, run: Run) -> tuple[str, str]:
        return run.checkpoint["old_identity"], ""

    def commands(self, plan: Plan) -> tuple[PlannedCommand, ...]:
        return (PlannedCommand(plan.target.name, plan.target.start_command),)

    def make_quiet(self, run: Run, database: Database) -> None:
        """Old data has its own settings."""

    def starts_a_copy(self, run: Run) -> bool:
        return False

    def advance(self, run: Run) -> StepOutcome:
        if run.plan.target.is_answering:
            return super().advance(run)
        run.journal.say(
            phrase("{target} did not run before the rebuild and stays stopped.", target=run.plan.target.name),
            host=run.plan.target.host,
        )
        return done()


class ReplicateAsBefore(Step):
    """Log how the old data replicates. This never fails: the old data may be the reason for the rebuild."""

    name = "replicate-as-before"
    title = phrase("Check the server and its replication")
    is_destructive = False

    def advance(self, run: Run) -> StepOutcome:
        run.checkpoint["rolled_back"] = True
        if not run.plan.target.is_answering:
            return done()
        with closing(run.target.connect(10.0)) as database:
            link = read_link(database, run.flavor)
            since = run.checkpoint.setdefault("replicate-as-before.since", run.clock.now())
            if link is None or link.is_running:
                run.checkpoint["serves"] = serves = (
                    phrase(
                        "The server runs and replicates from {host}:{port}.",
                        host=link.source_host,
                        port=link.source_port,
                    )
                    if link
                    else phrase("The server runs and does not replicate.")
                )
                text = phrase("{target}: {serves}", target=run.plan.target.name, serves=serves)
                run.journal.say(text, host=run.plan.target.host)
                return done()
            if (link.io_running, link.sql_running) == ("No", "No") and not run.checkpoint.get(
                "replicate-as-before.started"
            ):
                run.checkpoint["replicate-as-before.started"] = True
                for number, statement in enumerate(run.flavor.start_replication()):
                    run.execute(run.target, database, f"replicate-as-before.start.{number}", statement)
        if run.clock.now() - since < REPLICATES_SECONDS:
            return again(0.5)
        error = (
            link.last_io_error
            or link.last_sql_error
            or phrase("receiver {io}, applier {sql}", io=link.io_running, sql=link.sql_running)
        )
        run.checkpoint["serves"] = phrase("The server runs but does not replicate: {error}", error=error)
        run.journal.say(run.checkpoint["serves"], level=Level.WARNING, host=run.plan.target.host)
        return done()


class RemoveCopy(Step):
    """Remove the discarded copy, once the old data is in place."""

    name = "clean-up"
    title = phrase("Remove the failed copy")

    def commands(self, plan: Plan) -> tuple[PlannedCommand, ...]:
        return (PlannedCommand(plan.target.name, f"find {failed_path(plan, 'RUN')} -xdev -depth -delete"),)

    def advance(self, run: Run) -> StepOutcome:
        if not run.checkpoint.get("rolled_back"):
            inspect_unless_verified(run)
            return done()
        if not run.checkpoint.get("failed_identity"):
            return done()
        return remove_moved(
            run, "remove-copy", failed_path(run.plan, run.copy_run), run.checkpoint["failed_identity"], phrase("copy")
        )


def outcome(run: Run) -> str:
    """Return the outcome of a successful rollback."""
    target = run.plan.target
    # The old data may be damaged, or an empty directory where a server would start as a new one.
    stopped = phrase(
        "The server is stopped, as before. Check the data before you start it: {command}.", command=target.start_command
    )
    return phrase(
        "The old data of {target} is in place at {datadir}. {serves}",
        target=target.name,
        datadir=target.datadir,
        serves=run.checkpoint.get("serves") or stopped,
    )
