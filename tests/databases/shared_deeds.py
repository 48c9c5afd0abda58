"""What a process of the races can be told to do with rebuilds that share one read of their source."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from dbops import lifecycle
from dbops.engine.errors import Refused
from dbops.engine.facts.instance import Tool
from dbops.engine.states import Status, StepState
from dbops.models import AuditEntry, Event, Hold, Rebuild
from dbops.operations.rebuilds import cancel_rebuild, plan_rebuild, request_rebuild
from dbops.operations.shared_reads import join_read
from dbops.worker import automatic_retry
from tests.app import factories, rows
from tests.databases.deeds import empty


def forget_reads() -> None:
    """Let rebuilds be deleted: those that others point to are kept by the database."""
    Rebuild.objects.update(reads_with=None, follows=None)


def line(names: list[str]) -> list[int]:
    """Queue a rebuild of each name, all from one source that can be read once for several. Return their ids."""
    forget_reads()
    empty()
    cluster, user = factories.make_cluster(), factories.make_operator()
    source = factories.make_instance("backup", cluster=cluster, role="backup")
    host = factories.make_host_facts()
    tools = {**host.tools, "python3": Tool("/usr/bin/python3")}
    factories.set_facts(source, factories.make_facts(host=replace(host, tools=tools)))
    found = []
    for name in names:
        target = factories.make_instance(name, cluster=cluster)
        plan = factories.make_plan(target=target, source=source, programs={"source.backup": "/usr/bin/mariadb-backup"})
        made = factories.make_rebuild(
            target=target,
            source=source,
            status=Status.QUEUED,
            requested_by=user,
            plan=plan,
            requested_at=timezone.now(),
        )
        found.append(made.pk)
    return found


def join(rebuild_id: int, reader_id: int) -> str:
    """Return the code of the refusal, ``""`` where it has joined."""
    rows_of = Rebuild.objects.select_related("target", "source")
    user = User.objects.get(username="olga")
    try:
        join_read(actor=user, rebuild=rows_of.get(pk=rebuild_id), reader=rows_of.get(pk=reader_id))
    except Refused as error:
        return error.code
    return ""


def share(verb: str, rebuild_id: int, reader_id: int = 0) -> str:
    """Join, start, or cancel: of one race each process does another."""
    if verb == "join":
        return join(rebuild_id, reader_id)
    rebuild = Rebuild.objects.select_related("source", "target").get(pk=rebuild_id)
    if verb == "start":
        return lifecycle.start(rebuild)
    try:
        cancel_rebuild(actor=User.objects.get(username="olga"), rebuild=rebuild)
    except Refused as error:
        return error.code
    return ""


def look_at_reads() -> dict[str, Any]:
    return {
        "reads_with": {item.pk: item.reads_with_id for item in Rebuild.objects.all()},
        "status": {item.pk: item.status for item in Rebuild.objects.all()},
        "holds": [[item.instance.name, item.rebuild_id] for item in Hold.objects.select_related("instance")],
    }


def drop_one() -> int:
    """Leave a branch that was dropped, whose reader has its copy. Return its id."""
    forget_reads()
    empty()
    fleet, user = rows.make_fleet("primary-1", "backup-1", "replica-1", "replica-2"), rows.operator()
    made = []
    for name in ("replica-1", "replica-2"):
        plan = plan_rebuild(target=fleet[name], source=fleet["backup-1"])
        made.append(
            request_rebuild(
                actor=user,
                target=fleet[name],
                source=fleet["backup-1"],
                typed_name=name,
                reason="for a race",
                fingerprint=plan.fingerprint,
                request_key=name,
            )
        )
    reader, branch = made
    reader.steps.filter(name="stream").update(state=StepState.DONE)
    ended = timezone.now() - timedelta(minutes=1)
    Rebuild.objects.filter(pk=branch.pk).update(
        status=Status.FAILED,
        ending=Status.FAILED,
        error={"code": "shared.missed"},
        finished_at=ended,
        target_slot=None,
        reads_with=reader,
        retry_due_at=ended,
    )
    return branch.pk


def look_at_dropped(rebuild_id: int, later: float) -> int | None:
    """Look at a branch as the worker does, so many seconds from now. Return what was queued."""
    queued = automatic_retry.look_at(rebuild_id, timezone.now() + timedelta(seconds=later))
    return queued.pk if queued else None


def queue_dropped(rebuild_id: int) -> int | None:
    """As one that has claimed its look, whoever else has."""
    found = Rebuild.objects.select_related("target__cluster", "target__state", "source__state", "requested_by")
    try:
        queued = automatic_retry._queue(found.get(pk=rebuild_id))
    except automatic_retry.OperationalError as error:
        if not lifecycle.lost_a_race(error):
            raise
        return None
    return queued.pk if queued else None


def told_of_dropped(rebuild_id: int) -> dict[str, Any]:
    return {
        "rebuilds": list(Rebuild.objects.filter(follows=rebuild_id).values_list("pk", flat=True)),
        "events": list(Event.objects.filter(rebuild=rebuild_id).values_list("text", flat=True)),
        "asked": AuditEntry.objects.filter(action="rebuild.requested", actor="dbops").count(),
        "due": Rebuild.objects.filter(retry_due_at__isnull=False).count(),
    }


DEEDS: dict[str, Callable[..., Any]] = {
    deed.__name__: deed
    for deed in (
        *(forget_reads, line, join, share, look_at_reads, drop_one, look_at_dropped, queue_dropped, told_of_dropped),
    )
}
