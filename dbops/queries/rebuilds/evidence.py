"""Read everything known about one rebuild, for its evidence file."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q

from dbops.audit.log import current_anchor, current_head
from dbops.engine.audit.chain import ChainHead, digest, moment
from dbops.engine.audit.excerpt import excerpt
from dbops.engine.facts.instance import from_record, to_record
from dbops.engine.rebuilds.plan import Plan, PlannedInstance
from dbops.models import AuditEntry, ExecutedCommand, Rebuild, RebuildStep
from dbops.queries.rebuilds.row_comparisons import as_record, comparison_of

FORMAT = "dbops evidence 1"
COMMAND = "command.ended"
#: Excluded fields of a step's result: a host wrote the last lines of a tool, which stay in the rebuild's log.
LEFT_OUT = ("tails",)
#: Parts of checkpoints that identify the data: their name in the file, and their keys there.
REMEMBERED = {
    "bytes": "stream.bytes",
    "position": "position",
    "checkpoints": "checkpoints",
    "caught_up_to": "catch-up.goal",
    "certificate": "certificate",
    "verified": "verified",
    "old_data_at": "aside_path",
}
#: Maximum step back of a clock between a request and its records.
SLACK = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Evidence:
    """One rebuild at the time of the file.

    ``content`` is all of it as plain data. ``is_plan_as_requested`` says whether the stored plan matches the hash in the audit
    log; ``None`` if the log has none.
    """

    rebuild: Rebuild
    made_at: datetime
    made_by: str
    plan: Plan | None
    head: ChainHead
    request: AuditEntry | None
    is_plan_as_requested: bool | None
    entries: tuple[AuditEntry, ...]
    steps: tuple[RebuildStep, ...]
    commands: tuple[ExecutedCommand, ...]
    content: dict[str, Any]

    @property
    def parties(self) -> tuple[PlannedInstance, ...]:
        return (self.plan.target, self.plan.source, self.plan.primary) if self.plan else ()

    @property
    def holes(self) -> list[dict[str, Any]]:
        return list(self.content["audit"]["holes"])


def evidence_of(rebuild: Rebuild, *, made_by: str, now: datetime) -> Evidence:
    """Return the evidence of a rebuild read with ``rebuilds.find``. Eight queries at most.

    The head is read first: later entries come after it and are not in the file.
    """
    head = current_head()
    entries = tuple(_entries(rebuild, head))
    steps, commands = tuple(rebuild.steps.all()), tuple(rebuild.commands.all())
    plan = from_record(Plan, rebuild.plan) if rebuild.plan else None
    request = next((entry for entry in entries if _is_request(entry, rebuild)), None)
    wanted = request.detail.get("plan_sha256") if request else None
    return Evidence(
        rebuild=rebuild,
        made_at=now,
        made_by=made_by,
        plan=plan,
        head=head,
        request=request,
        is_plan_as_requested=digest(rebuild.plan) == wanted if wanted else None,
        entries=tuple(entry for entry in entries if entry.action != COMMAND),
        steps=steps,
        commands=commands,
        content={
            "format": FORMAT,
            "made_at": moment(now),
            "made_by": made_by,
            "is_over": rebuild.is_final,
            "rebuild": _rebuild(rebuild),
            "ticket": rebuild.ticket,
            "request": _request(rebuild, request),
            "approval": _approval(rebuild),
            "plan": rebuild.plan,
            "plan_sha256": digest(rebuild.plan),
            "machines": [to_record(party) for party in (plan.target, plan.source, plan.primary)] if plan else [],
            "steps": [_step(step) for step in steps],
            "commands": [_command(command) for command in commands],
            "data": {name: rebuild.checkpoint[key] for name, key in REMEMBERED.items() if key in rebuild.checkpoint},
            "row_comparison": as_record(comparison_of(rebuild.pk)),
            "end": {
                "at": _at(rebuild.finished_at),
                "status": rebuild.status,
                "outcome": rebuild.outcome,
                "error": rebuild.error,
            },
            "audit": {**excerpt([entry.link for entry in entries], head), "archived_to": current_anchor().sequence},
        },
    )


def _entries(rebuild: Rebuild, head: ChainHead) -> Iterable[AuditEntry]:
    """Return the entries about a rebuild, oldest first: they name it or a follow-up of it."""
    rows = AuditEntry.objects.filter(sequence__lte=head.sequence, at__gte=rebuild.requested_at - SLACK)
    if rebuild.plan and rebuild.plan["target"]["name"] == rebuild.target.name:
        # By the index. A renamed instance appears under each of its names: then all entries are searched.
        rows = rows.filter(instance=rebuild.target.name)
    named = Q(detail__rebuild=rebuild.pk) | Q(detail__follows=rebuild.pk)
    return rows.filter(named).order_by("sequence")


def _is_request(entry: AuditEntry, rebuild: Rebuild) -> bool:
    is_one = entry.action.startswith("rebuild.") and entry.action.endswith("requested")
    return is_one and entry.action != "rebuild.cancel_requested" and entry.detail.get("rebuild") == rebuild.pk


def _rebuild(rebuild: Rebuild) -> dict[str, Any]:
    return {
        "number": rebuild.pk,
        "uid": rebuild.uid,
        "method": rebuild.method,
        "status": rebuild.status,
        "cluster": rebuild.target.cluster.name,
        "target": rebuild.target.name,
        "source": rebuild.source.name,
        "follows": rebuild.follows_id,
        "followed_by": list(rebuild.followed_by.order_by("pk").values_list("pk", flat=True)),
        "started_at": _at(rebuild.started_at),
        "finished_at": _at(rebuild.finished_at),
        "cancel_requested_at": _at(rebuild.cancel_requested_at),
        "cancel_requested_by": rebuild.cancel_requested_by,
        "plan_fingerprint": rebuild.plan_fingerprint,
    }


def _request(rebuild: Rebuild, entry: AuditEntry | None) -> dict[str, Any]:
    """Return the request. Only the log has its origin and the fingerprint of the displayed plan."""
    return {
        "by": rebuild.requested_by.get_username(),
        "at": _at(rebuild.requested_at),
        "reason": rebuild.reason,
        "address": entry.address if entry else "",
        "request": entry.request if entry else "",
        "fingerprint_shown": entry.detail.get("fingerprint", "") if entry else "",
        "audit_entry": entry.sequence if entry else None,
    }


def _approval(rebuild: Rebuild) -> dict[str, Any]:
    return {
        "decision": rebuild.approval,
        "by": rebuild.approval_by,
        "at": _at(rebuild.approval_at),
        "reason": rebuild.approval_reason,
        "needed": rebuild.approval_count if rebuild.approval else 0,
        "only_approvers": rebuild.approvers_only,
        "given": [
            {"by": one.user.get_username(), "at": _at(one.at), "reason": one.reason}
            for one in rebuild.approvals.select_related("user")
        ],
    }


def _step(step: RebuildStep) -> dict[str, Any]:
    return {
        "name": step.name,
        "title": step.title,
        "state": step.state,
        "started_at": _at(step.started_at),
        "finished_at": _at(step.finished_at),
        "result": {name: value for name, value in (step.result or {}).items() if name not in LEFT_OUT},
    }


def _command(command: ExecutedCommand) -> dict[str, Any]:
    return {
        "key": command.key,
        "step": command.step,
        "place": command.place,
        "command": command.text,
        "started_at": _at(command.started_at),
        "finished_at": _at(command.finished_at),
        "exit_status": command.exit_status,
    }


def _at(value: datetime | None) -> str:
    return moment(value) if value else ""
