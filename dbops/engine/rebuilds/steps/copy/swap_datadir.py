"""Replace the old data by an empty directory: last check, stop and move."""

from dbops.engine.errors import Refused
from dbops.engine.hosts.jobs import REFUSED_STATUS, job_must_succeed, pairs
from dbops.engine.hosts.local_login import local_login
from dbops.engine.hosts.scripts import load
from dbops.engine.phrases import phrase
from dbops.engine.ports import JobState
from dbops.engine.rebuilds.plan import Plan, PlannedCommand
from dbops.engine.rebuilds.steps.base import JobStep
from dbops.engine.rebuilds.steps.commands import split_command
from dbops.engine.rebuilds.steps.copy.shared_read import ASK_SECONDS, may_swap_datadir
from dbops.engine.rebuilds.steps.preflight.data_location import old_data
from dbops.engine.rebuilds.steps.run import Run, StepOutcome, again, done
from dbops.engine.rebuilds.steps.start.quiet_settings import remember_events


class SwapDatadir(JobStep):
    """Check on the host once more, stop the server, move its data aside: in one script, with nothing between check and action."""

    name = "swap-datadir"
    title = phrase("Stop the target and move its data aside")

    def commands(self, plan: Plan) -> tuple[PlannedCommand, ...]:
        target = plan.target
        move = (
            f"mv -T -n {target.datadir} {plan.aside_path}"
            if plan.aside_path
            else f"cd {target.datadir} && find . -xdev -mindepth 1 ! -path './.dbops-old-*' ! -path './.dbops-failed-*' -delete"
        )
        return (
            PlannedCommand(target.name, "# on the host: check identity, role and replicas first"),
            PlannedCommand(target.name, target.stop_command),
            PlannedCommand(target.name, move),
            PlannedCommand(target.name, f"install -d -o {target.os_user} {target.datadir}"),
        )

    def advance(self, run: Run) -> StepOutcome:
        return super().advance(run) if may_swap_datadir(run) else again(ASK_SECONDS)

    def start(self, run: Run) -> JobState:
        target, plan, admin = run.plan.target, run.plan, run.accounts.target
        if "incomplete_copy" in run.checkpoint and not run.checkpoint.get("incomplete_copy_tree"):
            raise Refused(
                "resume.changed",
                phrase("Resuming the rebuild of {target}", target=target.name),
                cause=phrase("the content of the data directory is unknown"),
            )
        if run.checkpoint.get("touched"):  # begun before, with unknown progress
            run.checkpoint["swap-datadir.again"] = True
        remember_events(run)
        run.checkpoint["touched"] = True
        return run.start_job(
            run.target,
            self.name,
            "\n".join(command.text for command in self.commands(plan)),
            load("common", "inside", "service", "swap_datadir"),
            target.datadir,
            target.datadir_identity,
            "1" if target.is_answering else "0",
            str(target.server_id or ""),
            target.server_uuid,
            target.socket,
            plan.aside_path,
            target.os_user,
            plan.programs["target.client"],
            run.run_id,
            target.machine,
            run.checkpoint.get("incomplete_copy_tree", ""),
            *split_command(target.stop_command),
            secrets={
                "admin.cnf": local_login(run.flavor, admin, run.target.jobs.run_directory),
                "inside": "".join(f"{line}\n" for line in plan.inside),
            },
        )

    def stall_seconds(self, run: Run) -> float:
        """Return how long the job may be silent: removing old data takes any time without output."""
        return run.settings.stall_stop_seconds if run.plan.aside_path else 0.0

    def follow(self, run: Run, state: JobState) -> None:
        run.journal.progress(note=phrase("stopping the server, moving its data"))

    def finish(self, run: Run, state: JobState) -> StepOutcome:
        if state.exit_status == REFUSED_STATUS and not run.checkpoint.get("swap-datadir.again"):
            run.checkpoint["refused"] = True  # its script refuses before it changes anything
        job_must_succeed(state, phrase("Stopping {target} and moving its data aside", target=run.plan.target.name))
        found = pairs(state.tails.get("out", ""))
        run.checkpoint["new_identity"] = found["identity"]
        run.checkpoint["left_tree"] = found.get("tree", "")
        run.checkpoint["aside_identity"] = found.get("aside_identity", "")
        run.checkpoint["aside_path"] = run.plan.aside_path if found.get("aside_identity") else ""
        target = run.plan.target
        run.journal.say(
            phrase("{target} is stopped. {old_data}", target=target.name, old_data=old_data(run)), host=target.host
        )
        return done(exit_statuses={"swap": 0})
