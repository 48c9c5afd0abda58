"""Check before a resume that the copy is that of the failed rebuild, and the instances still match its plan."""

from contextlib import closing

from dbops.engine.errors import Refused
from dbops.engine.facts.instance import to_record
from dbops.engine.phrases import joined, phrase
from dbops.engine.ports import Database
from dbops.engine.rebuilds.plan import Plan, PlannedInstance
from dbops.engine.rebuilds.steps.base import Step
from dbops.engine.rebuilds.steps.preflight.data_location import describe_data_location, inspect_host
from dbops.engine.rebuilds.steps.preflight.live_check import shown
from dbops.engine.rebuilds.steps.preflight.source_replication import remember_replication
from dbops.engine.rebuilds.steps.replicate.replication import is_attached_to, read_link
from dbops.engine.rebuilds.steps.run import Run, StepOutcome, done
from dbops.engine.rebuilds.steps.start.relaxed_durability import watch

#: Changes on the target by the failed rebuild itself.
CHANGED_BY_US = {"datadir_identity", "is_answering", "server_id", "server_uuid", "version", "socket"}
#: Findings that do not concern a resume: it copies nothing.
OF_THE_COPY = {
    *("target.space", "source.redo", "source.account", "source.open_files", "source.engines", "source.outside_files"),
    *("clone.plugin", "clone.super_read_only", "clone.engines", "clone.packet", "clone.platform", "clone.programs"),
    *("archive.file", "archive.host", "archive.tool", "archive.programs", "dump.programs"),
}


def differences_for_resume(before: Plan, now: Plan) -> list[str]:
    """Return how the instances differ from the plan, as sentences, except for the failed rebuild's changes on the target."""
    changes: list[str] = []
    for role, ignored in (
        ("target", CHANGED_BY_US),
        ("source", set[str]()),
        ("primary", set[str]()),
    ):
        old, new = _record(getattr(before, role), ignored), _record(getattr(now, role), ignored)
        changes += [f"{role} {key}: {old[key]!r} -> {new[key]!r}" for key in old if old[key] != new[key]]
    if before.uses_gtid != now.uses_gtid:
        changes.append(phrase("GTID: {before} -> {now}", before=before.uses_gtid, now=now.uses_gtid))
    refusals = [finding for finding in now.refusals if finding.code not in OF_THE_COPY]
    return changes + [shown(finding) for finding in refusals]


def _record(party: PlannedInstance, ignored: set[str]) -> dict[str, object]:
    return {key: value for key, value in to_record(party).items() if key not in ignored}


class ResumeCheck(Step):
    """Check the live instances, the copy on the host, and the server on it if one runs."""

    name = "resume-check"
    title = phrase("Check that copy and instances match the failed rebuild")
    is_destructive = False

    def advance(self, run: Run) -> StepOutcome:
        inspect_host(run)
        watch(run, at_once=True)
        found, target = run.checkpoint["found"], run.plan.target
        changes = differences_for_resume(run.plan, run.replan())
        if found.get("datadir") != run.checkpoint["new_identity"] or not found.get("new"):
            changes.append(phrase("{datadir} is not the expected copy", datadir=target.datadir))
        elif found.get("pids", "").strip():
            with closing(run.target.connect(10.0)) as database:
                changes += self._server(database, target) + self._attached_elsewhere(run, database)
        if changes:
            raise Refused(
                "resume.changed",
                phrase("Comparing copy and instances with those of the failed rebuild"),
                cause=joined(changes, "; "),
                state=phrase(
                    "This attempt changed nothing. {location}",
                    location=describe_data_location(run),
                ),
            )
        remember_replication(run)
        run.journal.say(phrase("The copy at {datadir} is the expected one.", datadir=target.datadir), host=target.host)
        return done()

    def _attached_elsewhere(self, run: Run, database: Database) -> list[str]:
        """Return a reason if a copy without GTID follows another server: catching up would repeat what it has applied since."""
        if run.plan.uses_gtid or "catch-up" in run.checkpoint.get("done_before", ()):
            return []
        link = read_link(database, run.flavor)
        if link is None or is_attached_to(link, run.plan.source) or (link.io_running, link.sql_running) == ("No", "No"):
            return []
        return [
            phrase(
                "it replicates from {host}:{port}, which dbops did not set",
                host=link.source_host,
                port=link.source_port,
            )
        ]

    def _server(self, database: Database, target: PlannedInstance) -> list[str]:
        row = database.query("SELECT @@server_id AS server_id, @@read_only AS read_only")[0]
        attached = database.query(
            "SELECT COUNT(*) AS replicas FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'"
        )[0]["replicas"]
        changes: list[str] = []
        if int(row["server_id"]) != target.configured_server_id:
            changes.append(
                phrase(
                    "the server has server_id {server_id}, not {expected}",
                    server_id=row["server_id"],
                    expected=target.configured_server_id,
                )
            )
        if not int(row["read_only"]):
            changes.append(phrase("{target} accepts writes now and may be a primary", target=target.name))
        if int(attached):
            changes.append(phrase("{count} replicas are attached to {target}", count=attached, target=target.name))
        return changes
