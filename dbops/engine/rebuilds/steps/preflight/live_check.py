"""Check the live machines before anything is destroyed, and open access from the target to the source."""

from dataclasses import replace

from dbops.engine.errors import Refused, RemoteFailure
from dbops.engine.facts.instance import to_record
from dbops.engine.hosts.local_login import local_login
from dbops.engine.hosts.scripts import load
from dbops.engine.hosts.ssh import show
from dbops.engine.phrases import Phrase, joined, phrase
from dbops.engine.rebuilds.kept_replication import SOURCE_LINE, KeptReplication
from dbops.engine.rebuilds.plan import CHAINED, Finding, Plan, PlannedCommand, PlannedInstance
from dbops.engine.rebuilds.steps.base import Step
from dbops.engine.rebuilds.steps.commands import pull_command
from dbops.engine.rebuilds.steps.preflight.account_trial import trial_commands, try_replication_account
from dbops.engine.rebuilds.steps.preflight.source_replication import remember_replication
from dbops.engine.rebuilds.steps.preflight.tool_trial import try_tool
from dbops.engine.rebuilds.steps.run import Run, StepOutcome, again, done
from dbops.engine.rebuilds.steps.source.access import let_in, make_key
from dbops.engine.rebuilds.steps.source.release import GUARD, start_guard
from dbops.engine.states import Level

#: The whole answer of the forced command.
READY = "dbops-ready\n"


def differences(before: Plan, now: Plan) -> list[str]:
    """Return the differences between the confirmed plan and the plan of the live machines, as sentences."""
    changes: list[str] = []
    for role in ("target", "source", "primary"):
        old, new = to_record(getattr(before, role)), to_record(getattr(now, role))
        changes += [f"{role} {key}: {old[key]!r} -> {new[key]!r}" for key in old if old[key] != new[key]]
    if is_upstream_away(before, now):
        before, now = _without_upstream(before), _without_upstream(now)
    if before.upstream != now.upstream:
        changes.append(
            phrase(
                "intermediate replica: {before} -> {now}",
                before=_identity(before.upstream),
                now=_identity(now.upstream),
            )
        )
    changes += [
        phrase(
            "{what}: {before} -> {now}", what=what, before=repr(getattr(before, field)), now=repr(getattr(now, field))
        )
        for what, field in (
            (phrase("pausing the source"), "pause_source"),
            (phrase("old data"), "old_data"),
            ("GTID", "uses_gtid"),
            (phrase("attaching to the primary at once"), "skips_source"),
        )
        if getattr(before, field) != getattr(now, field)
    ]
    changes += _of_replication(before.replication, now.replication)
    known = {finding.accepted_as for finding in before.warnings}
    changes += [shown(finding) for finding in now.refusals]
    changes += [shown(finding) for finding in now.warnings if finding.accepted_as not in known]
    return changes


def shown(finding: Finding) -> Phrase:
    """Return the text of a finding that a new plan has."""
    return phrase("{title}: {seen}", title=finding.title, seen=finding.seen)


def _of_replication(before: KeptReplication | None, now: KeptReplication | None) -> list[str]:
    """Return what differs of the target's replication: only the values that do, because a connection has dozens."""
    if before == now:
        return []
    old, new = _values(before), _values(now)
    keys = [key for key in old | new if old.get(key) != new.get(key)]
    found: list[str] = [
        phrase(
            "replication of the target, {key}: {old} -> {new}",
            key=key,
            old=old.get(key, phrase("none")),
            new=new.get(key, phrase("none")),
        )
        for key in keys
    ]
    return found or [phrase("replication of the target: other reasons")]


def _values(kept: KeptReplication | None) -> dict[str, str]:
    if kept is None:
        return {}
    return {
        "channel": repr(kept.channel),
        "source": repr(kept.followed),
        "read": phrase("earlier") if kept.is_last_known else phrase("now"),
        **{key: repr(value) for key, value in (kept.options | kept.filters | kept.variables).items()},
        **{f"{one.name} after the rebuild": f"{one.after!r} ({one.fate})" for one in kept.settings},
    }


def is_upstream_away(before: Plan, now: Plan) -> bool:
    """Return whether the target still follows the planned intermediate replica, which is unfit at the moment.

    The rebuild can continue: its last change looks at that server again, and leaves the target at the primary where it is still unfit.
    """
    old, new = (plan.replication.followed if plan.replication else "" for plan in (before, now))
    is_chained = any(finding.code == CHAINED for finding in now.warnings)
    return before.upstream is not None and now.upstream is None and is_chained and bool(old) and old == new


def _without_upstream(plan: Plan) -> Plan:
    """Return the plan without what follows from the intermediate replica's state."""
    return replace(
        plan,
        upstream=None,
        replication=_without_source(plan.replication),
        findings=tuple(finding for finding in plan.findings if finding.code != CHAINED),
    )


def _without_source(kept: KeptReplication | None) -> KeptReplication | None:
    return kept and replace(kept, settings=tuple(one for one in kept.settings if one.name != SOURCE_LINE))


def _identity(party: PlannedInstance | None) -> str:
    if party is None:
        return phrase("none")
    return phrase(
        "{instance} at {address}:{port}, server id {server_id}, on {machine}",
        instance=party.name,
        address=party.address,
        port=party.port,
        server_id=party.server_id,
        machine=party.machine or party.host,
    )


class PreflightCheck(Step):
    """Probe target, source and primary now, and refuse if they differ from the plan."""

    name = "preflight"
    title = phrase("Check that the live instances match the plan")
    is_destructive = False

    def commands(self, plan: Plan) -> tuple[PlannedCommand, ...]:
        return trial_commands(plan)

    def advance(self, run: Run) -> StepOutcome:
        now = run.replan()
        changes = differences(run.plan, now)
        if changes:
            raise Refused(
                "plan.changed",
                phrase("Comparing the live instances with the plan"),
                cause=joined(changes, "; "),
            )
        target = run.plan.target
        seen = (
            phrase("server id {server_id}", server_id=target.server_id)
            if target.is_answering
            else phrase("no running server, directory {directory}", directory=target.datadir_identity)
        )
        run.journal.say(phrase("{target} matches the plan: {seen}.", target=target.name, seen=seen), host=target.host)
        _warn_of_upstream(run, now)
        try_replication_account(run)
        return done()


def _warn_of_upstream(run: Run, now: Plan) -> None:
    if run.plan.upstream and is_upstream_away(run.plan, now):
        why = joined(finding.seen for finding in now.warnings if finding.code == CHAINED)
        text = phrase(
            "{upstream} cannot take {target} back now: {why} It is checked again at the end.",
            upstream=run.plan.upstream.name,
            target=run.plan.target.name,
            why=why,
        )
        run.journal.say(text, level=Level.WARNING)


class OpenAccess(Step):
    """Install this run's key, a forced command on the source and the guard that releases the source, and test the connection."""

    name = "open-access"
    title = phrase("Open access from the target to the source")
    is_destructive = False

    def commands(self, plan: Plan) -> tuple[PlannedCommand, ...]:
        source, target = plan.source, plan.target
        return (
            PlannedCommand(target.name, "ssh-keygen -t ed25519 -f key   # a key for this run only"),
            PlannedCommand(
                source.name,
                'authorized_keys += restrict,command="serve",from="..." '
                "  # removed at the end, at the latest by the guard; expires automatically",
            ),
        )

    def advance(self, run: Run) -> StepOutcome:
        check_account(run)
        remember_replication(run)
        public_key = make_key(run)
        if not self._guard_is_armed(run):
            return again(5.0)
        let_in(run, public_key, "open.source")
        try_tool(run)
        check_access(run)
        return done()

    def _guard_is_armed(self, run: Run) -> bool:
        """Start the guard; a guard of an earlier rebuild whose end did not reach the source releases the source first."""
        try:
            start_guard(run, GUARD)
        except RemoteFailure as error:
            since = run.checkpoint.setdefault("open.waits_since", run.clock.now())
            if error.code != "host.busy" or run.clock.now() - since > run.settings.guard_idle_seconds + 60:
                raise
            if "open.wait_logged" not in run.checkpoint:
                run.checkpoint["open.wait_logged"] = True
                run.journal.say(
                    phrase(
                        "The guard of an earlier rebuild still holds the source and releases it within {seconds} s.",
                        seconds=run.settings.guard_idle_seconds,
                    ),
                    host=run.source.party.host,
                )
            return False
        return True


def check_account(run: Run) -> None:
    """Test the local socket login that pausing, resuming and the last check need. Raises as ``Run.act``."""
    sides = (
        (run.source, "source.client", run.accounts.source),
        (run.target, "target.client", run.accounts.target),
    )
    for side, program, account in sides:
        if side.party.is_answering:
            run.act(
                side,
                f"open.account.{side.party.name}",
                f"log in to {side.party.name} over its local socket",
                load("check_local_login"),
                run.plan.programs[program],
                side.party.socket,
                stdin=local_login(run.flavor, account, side.jobs.run_directory).encode(),
            )


def check_access(run: Run) -> None:
    """Ask the forced command on the source, from the target, whether it is ready.

    Raises:
        RemoteFailure: it is not ready, or not reachable (``stream.no_way``); or the login's start-up files print text, which
            would be part of the stream (``stream.noisy_login``).
    """
    command = [*pull_command(run, attempts=1), "check"]
    run.journal.check()
    run.journal.command("open.check", run.target.party.host, show(command))
    result = run.target.jobs.act('"$@" </dev/null', *command, timeout_seconds=30)
    run.journal.finished("open.check", result.exit_status, result.stdout + result.stderr)
    printed = result.stdout.removesuffix(READY)
    if result.exit_status == 0 and printed and printed != result.stdout:
        raise RemoteFailure(
            "stream.noisy_login",
            phrase("Trying the SSH connection from the target to the source"),
            cause=phrase("before dbops's command it printed: {printed}", printed=printed.strip()[:300]),
        )
    if result.exit_status != 0 or result.stdout != READY:
        raise RemoteFailure(
            "stream.no_way",
            phrase("Trying the SSH connection from the target to the source"),
            cause=(result.stdout + result.stderr).strip()[-500:]
            or phrase("exit status {status}", status=result.exit_status),
        )
    run.journal.say(
        phrase("{host} reaches {source} over SSH.", host=run.target.party.host, source=run.source.party.host),
        host=run.target.party.host,
    )
