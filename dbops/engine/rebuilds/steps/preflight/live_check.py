"""Before anything is destroyed: look again at the live machines, and open the way from the source to the target."""

from dbops.engine.errors import Refused, RemoteFailure
from dbops.engine.facts.instance import to_record
from dbops.engine.hosts.scripts import load
from dbops.engine.hosts.ssh import show
from dbops.engine.rebuilds.plan import Plan, PlannedCommand
from dbops.engine.rebuilds.steps.base import Step
from dbops.engine.rebuilds.steps.commands import pull_command
from dbops.engine.rebuilds.steps.preflight.source_replication import remember_replication
from dbops.engine.rebuilds.steps.run import Run, StepOutcome, again, done
from dbops.engine.rebuilds.steps.source.access import let_in, make_key
from dbops.engine.rebuilds.steps.source.release import start_guard


def differences(before: Plan, now: Plan) -> list[str]:
    """Return what changed between the plan that was confirmed and the one that the live machines give, as sentences."""
    changes: list[str] = []
    for role in ("target", "source", "primary"):
        old, new = to_record(getattr(before, role)), to_record(getattr(now, role))
        changes += [f"{role} {key}: {old[key]!r} -> {new[key]!r}" for key in old if old[key] != new[key]]
    changes += [
        f"{what}: {getattr(before, field)!r} -> {getattr(now, field)!r}"
        for what, field in (("pausing the source", "pause_source"), ("old data", "old_data"), ("GTID", "uses_gtid"))
        if getattr(before, field) != getattr(now, field)
    ]
    known = {finding.accepted_as for finding in before.warnings}
    changes += [f"{finding.title}: {finding.seen}" for finding in now.refusals]
    changes += [f"{finding.title}: {finding.seen}" for finding in now.warnings if finding.accepted_as not in known]
    return changes


class PreflightCheck(Step):
    """Probe target, source and primary now, and refuse if they are not what the plan saw."""

    name = "fingerprint"
    title = "Check that the live instances are those of the plan"
    is_destructive = False

    def advance(self, run: Run) -> StepOutcome:
        changes = differences(run.plan, run.replan())
        if changes:
            raise Refused(
                "plan.changed",
                "Comparing the live instances with the plan",
                cause="; ".join(changes),
            )
        target = run.plan.target
        seen = (
            f"server id {target.server_id}"
            if target.is_answering
            else f"no running server, directory {target.datadir_identity}"
        )
        run.journal.say(f"{target.name} is what the plan saw: {seen}.", host=target.host)
        return done()


class OpenAccess(Step):
    """A key of this run, a forced command on the source, the guard that gives the source back, and a trial of the way."""

    name = "open"
    title = "Open the way from the source to the target"
    is_destructive = False

    def commands(self, plan: Plan) -> tuple[PlannedCommand, ...]:
        source, target = plan.source, plan.target
        return (
            PlannedCommand(target.name, "ssh-keygen -t ed25519 -f key   # a key of this run alone"),
            PlannedCommand(
                source.name,
                'authorized_keys += restrict,command="serve",from="..." '
                "  # taken away at the end, by the guard at the latest, and it expires by itself",
            ),
        )

    def advance(self, run: Run) -> StepOutcome:
        check_account(run)
        remember_replication(run)
        public_key = make_key(run)
        if not self._guard_is_armed(run):
            return again(5.0)
        let_in(run, public_key, "open.source")
        check_access(run)
        return done()

    def _guard_is_armed(self, run: Run) -> bool:
        """Start the guard; that of an earlier rebuild, whose end the source did not hear of, first gives the source back."""
        try:
            start_guard(run, "guard")
        except RemoteFailure as error:
            since = run.checkpoint.setdefault("open.waits_since", run.clock.now())
            if error.code != "host.busy" or run.clock.now() - since > run.settings.guard_idle_seconds + 60:
                raise
            if "open.waits_told" not in run.checkpoint:
                run.checkpoint["open.waits_told"] = True
                run.journal.say(
                    "The guard of an earlier rebuild is still at the source: it gives the source back within "
                    f"{run.settings.guard_idle_seconds} s.",
                    host=run.source.party.host,
                )
            return False
        return True


def check_account(run: Run) -> None:
    """Pausing, resuming and the last check all log in over the local socket: find out now whether that works. Raises as ``Run.act``."""
    account = run.accounts.admin
    for side, program in ((run.source, "source.client"), (run.target, "target.client")):
        if side.party.is_answering:
            run.act(
                side,
                f"open.account.{side.party.name}",
                f"log in to {side.party.name} over its local socket",
                load("check_local_login"),
                run.plan.programs[program],
                side.party.socket,
                stdin=run.flavor.credentials_file(account.user, account.password).encode(),
            )


def check_access(run: Run) -> None:
    """Let the target ask the forced command on the source whether it is ready.

    Raises:
        RemoteFailure: it is not, or cannot be reached (``stream.no_way``).
    """
    command = [*pull_command(run, attempts=1), "check"]
    run.journal.check()
    run.journal.command("open.check", run.target.party.host, show(command))
    result = run.target.jobs.act('"$@" 2>&1 </dev/null', *command, timeout_seconds=30)
    run.journal.finished("open.check", result.exit_status, result.stdout + result.stderr)
    if result.exit_status != 0 or "dbops-ready" not in result.stdout:
        raise RemoteFailure(
            "stream.no_way",
            "Trying the SSH connection from the target to the source",
            cause=(result.stdout + result.stderr).strip()[-500:] or f"exit status {result.exit_status}",
        )
    run.journal.say(f"{run.target.party.host} reaches {run.source.party.host} over SSH.", host=run.target.party.host)
