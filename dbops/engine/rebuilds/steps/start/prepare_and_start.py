"""Turn a whole copy into a running server: prepare, change owner and identity, start."""

from dataclasses import asdict
from typing import Any

from dbops.engine.errors import RemoteFailure
from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.prepare_progress import PrepareProgress, prepare_progress
from dbops.engine.flavors.quiet import NOT_QUIET, quiet_commands, quiet_words
from dbops.engine.flavors.tool_options import server_groups
from dbops.engine.hosts.jobs import REFUSED_STATUS, job_must_succeed, pairs
from dbops.engine.hosts.scripts import load
from dbops.engine.hosts.ssh import show
from dbops.engine.phrases import phrase
from dbops.engine.ports import Database, JobState
from dbops.engine.rebuilds.metrics import figures_of
from dbops.engine.rebuilds.plan import Plan, PlannedCommand
from dbops.engine.rebuilds.steps.base import JobStep
from dbops.engine.rebuilds.steps.commands import prepare_command, split_command
from dbops.engine.rebuilds.steps.preflight.data_location import describe_data_location
from dbops.engine.rebuilds.steps.run import Run, StepOutcome, done
from dbops.engine.rebuilds.steps.start.quiet_settings import begin_commands, begin_quiet
from dbops.engine.states import Level
from dbops.engine.tuning.prepare import size, within_what_is_free


class Prepare(JobStep):
    """Apply the copied redo log, so that the files are of one moment."""

    name = "prepare"
    title = phrase("Prepare the copy (apply its redo log)")

    def commands(self, plan: Plan) -> tuple[PlannedCommand, ...]:
        return (
            PlannedCommand(plan.target.name, show(prepare_command(plan, flavor_for(plan.source.version, plan.flavor)))),
        )

    def start(self, run: Run) -> JobState:
        command = prepare_command(run.plan, run.flavor, memory_bytes=self._memory_now(run))
        names, target = [*run.flavor.metadata_files["checkpoints"], ""], run.plan.target
        state = run.start_job(
            run.target,
            self.name,
            show(command),
            load("common", "tool_options", "copied_options", "prepare"),
            target.datadir,
            run.checkpoint["new_identity"],
            run.copy_run,
            target.os_user,
            *names[:2],
            target.defaults_file,
            target.group_suffix,
            " ".join(server_groups(run.flavor)),
            *command,
        )
        run.checkpoint["prepare.begun"] = True
        return state

    def _memory_now(self, run: Run) -> int:
        """Return the plan's memory, or less if less is free now than at planning: dbops must not cause an out-of-memory kill.

        The value is remembered: a driver that finds the tool running would otherwise read only the remaining memory.
        """
        planned, known = run.plan.prepare_memory_bytes, run.checkpoint.get("prepare.memory_bytes")
        if known is not None:
            return int(known)
        said = run.act(run.target, "prepare.memory", "read the free memory", load("free_memory")).stdout
        free = int(pairs(said).get("free_bytes", 0))
        if not free:  # the host does not report it
            return planned
        memory_bytes = run.checkpoint["prepare.memory_bytes"] = within_what_is_free(planned, free)
        if memory_bytes < planned:
            run.journal.say(
                phrase(
                    "{free} of memory are free: prepare uses {used} instead of {planned}.",
                    free=size(free),
                    used=size(memory_bytes),
                    planned=size(planned),
                ),
                level=Level.WARNING,
                host=run.plan.target.host,
            )
        return memory_bytes

    def stall_seconds(self, run: Run) -> float:
        return run.settings.stall_prepare_seconds

    def follow(self, run: Run, state: JobState) -> None:
        lines = state.tails.get("prepare", "").splitlines()
        found = prepare_progress(
            run.flavor,
            lines,
            PrepareProgress(**run.checkpoint.get("prepare.progress", {})),
            last_lsn=run.checkpoint["checkpoints"]["last_lsn"],
            memory_bytes=run.checkpoint.get("prepare.memory_bytes", run.plan.prepare_memory_bytes),
        )
        run.checkpoint["prepare.progress"] = asdict(found)
        known: dict[str, Any] = {"note": "applying the redo log"}
        run.journal.measured(figures_of(state.counters, "prepare"))
        if found.percent is not None:
            known["percent"] = found.percent
        run.journal.progress(**known)

    def finish(self, run: Run, state: JobState) -> StepOutcome:
        operation, log = phrase("Preparing the copy"), state.tails.get("prepare", "")
        run.checkpoint["prepare.begun"] = state.exit_status != REFUSED_STATUS
        job_must_succeed(state, operation, left=lambda: describe_data_location(run))
        if not log.rstrip().endswith("completed OK!"):
            raise RemoteFailure(
                "prepare.not_completed",
                operation,
                cause=phrase("last line: {line}", line=log.strip()[-300:]),
                state=describe_data_location(run),
            )
        self._must_be_prepared(run, state.tails.get("out", ""))
        run.journal.progress(percent=100.0)
        return done(exit_statuses=state.stages, tails={"prepare": log[-2000:]})

    def _must_be_prepared(self, run: Run, checkpoints: str) -> None:
        try:
            kind = run.flavor.parse_checkpoints(checkpoints).backup_type
        except (KeyError, ValueError):
            kind = phrase("(no checkpoints file)")
        if kind != run.flavor.prepared_type:
            raise RemoteFailure(
                "prepare.state",
                phrase("Checking the prepared copy"),
                cause=phrase("backup_type is {found}, not {expected}", found=kind, expected=run.flavor.prepared_type),
            )


class SetOwnership(JobStep):
    """Remove the source's identity; check that every file belongs to the target's user, who has unpacked them."""

    name = "set-ownership"
    title = phrase("Set ownership and identity")

    def commands(self, plan: Plan) -> tuple[PlannedCommand, ...]:
        target = plan.target
        return (
            PlannedCommand(
                target.name,
                f"cd {target.datadir}; rm auto.cnf and the backup tool's files; find . ! -user {target.os_user}",
            ),
        )

    def start(self, run: Run) -> JobState:
        flavor, target = run.flavor, run.plan.target
        names = sorted({name for kind in flavor.metadata_files.values() for name in kind})
        leftovers = [*names, "backup-my.cnf", "xtrabackup_logfile", "xtrabackup_binlog_pos_innodb"]
        return run.start_job(
            run.target,
            self.name,
            self.commands(run.plan)[0].text,
            load("common", "set_ownership"),
            target.datadir,
            run.checkpoint["new_identity"],
            run.copy_run,
            target.os_user,
            *leftovers,
        )

    def finish(self, run: Run, state: JobState) -> StepOutcome:
        job_must_succeed(state, phrase("Setting ownership and identity"))
        return done()


class StartServer(JobStep):
    """Start the target's server on the new data, and check its identity."""

    name = "start"
    title = phrase("Start the target on the new data")

    def commands(self, plan: Plan) -> tuple[PlannedCommand, ...]:
        target, flavor = plan.target, flavor_for(plan.source.version, plan.flavor)
        quiet = quiet_commands(
            flavor,
            server=plan.programs["target.server"],
            defaults_file=target.defaults_file,
            group_suffix=target.group_suffix,
        )
        return tuple(PlannedCommand(target.name, text) for text in (*quiet, target.start_command)) + begin_commands(
            plan
        )

    def data(self, run: Run) -> tuple[str, str]:
        """Return the identity of the data directory to start on, and the run whose mark it must contain."""
        return run.checkpoint["new_identity"], run.copy_run

    def make_quiet(self, run: Run, database: Database) -> None:
        """Keep the started server quiet until it is verified."""
        begin_quiet(run, database)

    def starts_a_copy(self, run: Run) -> bool:
        """Return whether the data has never run on this host: then it still has the source's links and enabled events."""
        return not run.checkpoint.get("quieted") and "catch-up" not in run.checkpoint.get("done_before", ())

    def _shown(self, run: Run) -> str:
        if not self.starts_a_copy(run):
            return run.plan.target.start_command
        return "\n".join(command.text for command in self.commands(run.plan) if not command.text.startswith("SET "))

    def _quiet_words(self, run: Run) -> list[str]:
        plan = run.plan
        if not self.starts_a_copy(run):
            return NOT_QUIET
        return quiet_words(
            run.flavor,
            client=plan.programs["target.client"],
            server=plan.programs["target.server"],
            defaults_file=plan.target.defaults_file,
            group_suffix=plan.target.group_suffix,
        )

    def start(self, run: Run) -> JobState:
        target = run.plan.target
        run.checkpoint["start.began"] = run.clock.now()
        run.checkpoint.pop("start.phase", None)
        return run.start_job(
            run.target,
            self.name,
            self._shown(run),
            load("common", "inside", "server_log", "service", "quiet_copy", "start"),
            target.datadir,
            *self.data(run),
            target.os_user,
            target.defaults_file,
            target.group_suffix,
            *self._quiet_words(run),
            *split_command(target.start_command),
        )

    def follow(self, run: Run, state: JobState) -> None:
        phase = state.tails.get("phase", "")
        if phase != run.checkpoint.get("start.phase", ""):  # quiet now: the server itself has the whole time
            run.checkpoint["start.phase"], run.checkpoint["start.began"] = phase, run.clock.now()
        if run.clock.now() - run.checkpoint["start.began"] > run.settings.start_timeout_seconds:
            raise RemoteFailure(
                "start.timeout",
                phrase("Starting {target}", target=run.plan.target.name),
                cause=phrase(
                    "the start command has not returned for {seconds} s",
                    seconds=f"{run.settings.start_timeout_seconds:.0f}",
                ),
            )

    def finish(self, run: Run, state: JobState) -> StepOutcome:
        job_must_succeed(
            state, phrase("Starting {target}", target=run.plan.target.name), left=lambda: describe_data_location(run)
        )
        self._is_quiet(run, state)
        self._is_itself(run)
        return done(exit_statuses={"start": 0})

    def _is_quiet(self, run: Run, state: JobState) -> None:
        """Remember that the copy was made quiet, and name the events that no longer run."""
        if not self.starts_a_copy(run):
            return
        run.checkpoint["quieted"] = True
        if named := ", ".join(state.tails.get("events", "").splitlines()):
            text = phrase("Events that were enabled in the copy are disabled, as on a replica: {events}.", events=named)
            run.journal.say(text, host=run.plan.target.host)

    def _is_itself(self, run: Run) -> None:
        """Check its own server id, the right directory, read-only, and a uuid that differs from the source's."""
        target, source = run.plan.target, run.plan.source
        database = run.target.connect(10.0)
        try:
            row = database.query(
                "SELECT @@server_id AS server_id, @@port AS port, @@datadir AS datadir, @@read_only AS read_only"
            )[0]
            if int(row["server_id"]) != target.configured_server_id or int(row["port"]) != target.port:
                raise RemoteFailure(
                    "start.identity",
                    phrase("Checking the started server of {target}", target=target.name),
                    cause=phrase(
                        "server_id {server_id}, port {port}; expected {expected_id} and {expected_port}",
                        server_id=row["server_id"],
                        port=row["port"],
                        expected_id=target.configured_server_id,
                        expected_port=target.port,
                    ),
                    state=describe_data_location(run),
                )
            if run.flavor.name == "mysql":
                uuid = database.query("SELECT @@server_uuid AS uuid")[0]["uuid"]
                if uuid == source.server_uuid:
                    raise RemoteFailure(
                        "start.uuid",
                        phrase("Checking the started server of {target}", target=target.name),
                        cause=phrase("it has the source's uuid {uuid}", uuid=uuid),
                    )
            if not int(row["read_only"]):
                run.execute(run.target, database, "start.read_only", "SET GLOBAL read_only = 1")
            self.make_quiet(run, database)
            run.journal.say(
                phrase("{target} serves with server id {server_id}.", target=target.name, server_id=row["server_id"]),
                host=target.host,
            )
        finally:
            database.close()
