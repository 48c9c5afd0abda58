"""Before anything is destroyed: look again at the live machines, and open the way from the source to the target."""

from dbops.engine.errors import Refused, RemoteFailure
from dbops.engine.facts import to_record
from dbops.engine.pipeline import show
from dbops.engine.plan import Plan, PlannedCommand
from dbops.engine.scripts import load
from dbops.engine.steps.base import Step
from dbops.engine.steps.commands import backup_command, from_addresses, known_hosts_line, pull_command
from dbops.engine.steps.run import Outcome, Run, done
from dbops.engine.steps.source import start_guard


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
    known = {finding.code for finding in before.warnings}
    changes += [f"{finding.title}: {finding.seen}" for finding in now.refusals]
    changes += [f"{finding.title}: {finding.seen}" for finding in now.warnings if finding.code not in known]
    return changes


class Fingerprint(Step):
    """Probe target, source and primary now, and refuse if they are not what the plan saw."""

    name = "fingerprint"
    title = "Check that the live instances are those of the plan"
    is_destructive = False

    def advance(self, run: Run) -> Outcome:
        changes = differences(run.plan, run.replan())
        if changes:
            raise Refused(
                "plan.changed",
                "Comparing the live instances with the plan",
                found="; ".join(changes),
                left="Nothing was changed on any host.",
                next_step="Open the plan again and look at what is different.",
            )
        target = run.plan.target
        seen = (
            f"server id {target.server_id}"
            if target.is_answering
            else f"no running server, directory {target.datadir_identity}"
        )
        run.journal.say(f"{target.name} is what the plan saw: {seen}.", host=target.host)
        return done()


class OpenSource(Step):
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

    def advance(self, run: Run) -> Outcome:
        self._try_the_account(run)
        public_key = self._make_key(run)
        start_guard(run, "guard")
        self._let_in(run, public_key)
        self._try_the_way(run)
        return done()

    def _make_key(self, run: Run) -> str:
        result = run.act(
            run.target,
            "open.key",
            "ssh-keygen -q -t ed25519 -f key",
            load("make_key"),
            run.run_id,
            known_hosts_line(run.source),
        )
        return result.stdout.strip()

    def _let_in(self, run: Run, public_key: str) -> None:
        source, account = run.source.party, run.accounts.backup
        command = backup_command(run.plan, run.flavor, run.source.jobs.run_directory)
        credentials = run.flavor.credentials_file(account.user, account.password, include=source.defaults_file)
        result = run.act(
            run.source,
            "open.source",
            "write the forced command and its credentials (0600), and let the run's key in",
            load("release", "open_source"),
            run.run_id,
            public_key,
            from_addresses(run.target),
            str(run.settings.key_lifetime_seconds),
            run.source.authorized_keys_file,
            source.ssh_user,
            "1" if run.source.sudo else "0",
            *command,
            stdin=f"{credentials.rstrip()}\n----\n{load('serve')}".encode(),
        )
        run.journal.say(f"The run's key is let in; it {result.stdout.strip().replace('=', ' ')}.", host=source.host)

    def _try_the_account(self, run: Run) -> None:
        """Pausing, resuming and the last check all log in over the local socket: find out now whether that works."""
        account = run.accounts.admin
        for side, program in ((run.source, "source.client"), (run.target, "target.client")):
            if side.party.is_answering:
                run.act(
                    side,
                    f"open.account.{side.party.name}",
                    f"log in to {side.party.name} over its local socket",
                    load("log_in"),
                    run.plan.programs[program],
                    side.party.socket,
                    stdin=run.flavor.credentials_file(account.user, account.password).encode(),
                )

    def _try_the_way(self, run: Run) -> None:
        command = [*pull_command(run), "check"]
        run.journal.check()
        run.journal.command("open.check", run.target.party.host, show(command))
        result = run.target.jobs.act('"$@" 2>&1 </dev/null', *command, timeout_seconds=30)
        run.journal.finished("open.check", result.exit_status, result.stdout + result.stderr)
        if result.exit_status != 0 or "dbops-ready" not in result.stdout:
            raise RemoteFailure(
                "stream.no_way",
                "Trying the SSH connection from the target to the source",
                found=(result.stdout + result.stderr).strip()[-500:] or f"exit status {result.exit_status}",
                left="Nothing was changed on the target.",
                next_step="Let the target reach the source's SSH port, and check stream_address and the pinned host key.",
            )
        run.journal.say(
            f"{run.target.party.host} reaches {run.source.party.host} over SSH.", host=run.target.party.host
        )
