"""Commands for the processes of the races. Plain data in and out: the test knows no Django."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.models import PROTECT, ForeignKey, Q
from django.utils import timezone

from dbops.audit.log import append, current_head
from dbops.database.errors import AWAY
from dbops.engine.audit.chain import verify
from dbops.engine.errors import Refused
from dbops.engine.methods import METHODS
from dbops.engine.rebuilds.steps.base import Step
from dbops.engine.rebuilds.steps.run import Run, StepOutcome, again, done
from dbops.engine.states import FINAL, Approval, Status
from dbops.lifecycle import rebuild_driver, rebuild_requests, starts
from dbops.lifecycle.leases import Lease, LeaseLost
from dbops.models import (
    AuditEntry,
    BackupRun,
    BackupSchedule,
    Cluster,
    Hold,
    Host,
    Instance,
    InstanceState,
    Rebuild,
    RebuildEvent,
)
from dbops.operations.approvals import approve_rebuild, decline_rebuild, override_approval
from dbops.operations.rebuilds import cancel_rebuild, plan_rebuild, request_rebuild
from dbops.worker import rebuilds, scheduler
from tests.app import factories, rows
from tests.audit_guards import empty_log

leases_kept: dict[int, Lease] = {}


def empty() -> None:
    """Empty the tables."""
    leases_kept.clear()
    for model in (Hold, Rebuild, BackupRun, BackupSchedule, InstanceState, Instance, Host, Cluster):
        model.objects.all().delete()
    empty_log()
    User.objects.all().delete()


def instances(names: list[str]) -> None:
    """Create instances without probes, and olga."""
    empty()
    cluster = factories.make_cluster()
    for name in names:
        factories.make_instance(name, cluster=cluster)
    factories.make_operator()


def queue(pairs: list[tuple[str, str, int]]) -> list[int]:
    """Queue rebuilds of (source, target, priority), oldest first. Return their ids."""
    found = {item.name: item for item in Instance.objects.select_related("host")}
    user = User.objects.get(username="olga")
    made = []
    for source, target, priority in pairs:
        made.append(
            factories.make_rebuild(
                target=found[target],
                source=found[source],
                status=Status.QUEUED,
                requested_by=user,
                priority=priority,
                requested_at=timezone.now(),
            ).pk
        )
    return made


def ask_for_approval(pair: tuple[str, str, int]) -> int:
    """Queue a rebuild of olga's that waits for approval."""
    [pk] = queue([pair])
    Rebuild.objects.filter(pk=pk).update(approval=Approval.WAITING)
    return pk


def say(verb: str, rebuild_id: int, name: str) -> str:
    """Let an operator approve, decline, override, cancel or start a rebuild that was waiting when the page was drawn."""
    rebuild = Rebuild.objects.select_related("target", "requested_by").get(pk=rebuild_id)
    if verb == "start":
        return start(rebuild_id)
    try:
        actor = User.objects.get(username=name)
        if verb == "cancel":
            cancel_rebuild(actor=actor, rebuild=rebuild)
        else:
            APPROVALS[verb](actor=actor, rebuild=rebuild, reason="a race")
    except Refused as error:
        return error.code
    return ""


def colleague(name: str) -> None:
    factories.make_operator(name)


def decisions(rebuild_id: int) -> list[str]:
    """Return what the audit log says of a rebuild, in its order."""
    entries = AuditEntry.objects.filter(detail__rebuild=rebuild_id).order_by("sequence")
    return list(entries.values_list("action", flat=True))


def start_what_can() -> list[int]:
    return scheduler.start_what_can()


def start(rebuild_id: int) -> str:
    """As the scheduler, but without looking first: every process runs into the database's own lock."""
    return starts.start(Rebuild.objects.select_related("source", "target").get(pk=rebuild_id))


def end(rebuild_ids: list[int]) -> None:
    for pk in rebuild_ids:
        lease = rebuild_driver.take_lease(pk)
        assert lease is not None
        rebuild_driver.finish(lease, Status.SUCCEEDED, "for the test")


def end_queued() -> None:
    for rebuild in Rebuild.objects.filter(status=Status.QUEUED):
        assert rebuild_requests.end_queued(rebuild, Status.CANCELLED, "test")


def make_holds_not_unique() -> None:
    """Take away what enforces one holder."""
    before, after = Hold._meta.get_field("instance"), ForeignKey(Instance, on_delete=PROTECT, related_name="+")
    after.set_attributes_from_name("instance")
    after.model = Hold
    with connection.schema_editor() as editor:
        editor.alter_field(Hold, before, after)


def take_lease(rebuild_id: int) -> int | None:
    """Return the fence, or ``None`` for who comes too late. The lease is kept by this process."""
    lease = rebuild_driver.take_lease(rebuild_id)
    if lease is None:
        return None
    leases_kept[rebuild_id] = lease
    return lease.rebuild.fence


def lend_lease(rebuild_id: int, owner: str) -> None:
    """Act under a lease that another process took: how two drivers would look that both believe in theirs."""
    leases_kept[rebuild_id] = Lease(Rebuild.objects.get(pk=rebuild_id), owner, None)


def finish(rebuild_id: int) -> str:
    try:
        rebuild_driver.finish(leases_kept[rebuild_id], Status.SUCCEEDED, "for the test")
    except LeaseLost:
        return "lost"
    return "finished"


def fleet() -> str:
    """Make a fleet whose replica may be rebuilt, and olga. Return the fingerprint of the plan."""
    empty()
    made = rows.make_fleet()
    rows.operator()
    return plan_rebuild(target=made["replica-1"], source=made["backup-1"]).fingerprint


def request(request_key: str, fingerprint: str) -> list[Any]:
    """Return ["queued", id] or ["refused", code]."""
    found = {item.name: item for item in Instance.objects.select_related("host", "cluster", "state")}
    try:
        rebuild = request_rebuild(
            actor=User.objects.get(username="olga"),
            target=found["replica-1"],
            source=found["backup-1"],
            typed_name="replica-1",
            reason="for a race",
            fingerprint=fingerprint,
            request_key=request_key,
        )
    except Refused as error:
        return ["refused", error.code]
    return ["queued", rebuild.pk]


def look() -> dict[str, Any]:
    """Return what is in the tables."""
    return {
        "status": {item.pk: item.status for item in Rebuild.objects.all()},
        "waiting": {item.pk: item.waiting_for for item in Rebuild.objects.filter(status=Status.QUEUED)},
        "holds": [[item.instance.name, item.rebuild_id] for item in Hold.objects.select_related("instance")],
        "steps": {item.name: item.state for item in rows_of_last("steps")},
        "events": [[item.rebuild_id, item.text] for item in RebuildEvent.objects.order_by("pk")],
        "levels": list(RebuildEvent.objects.order_by("pk").values_list("level", flat=True)),
        "audit": list(AuditEntry.objects.order_by("pk").values_list("action", flat=True)),
        "with slot": Rebuild.objects.filter(Q(target_slot__isnull=False)).count(),
        "owners": {item.pk: item.lease_owner for item in Rebuild.objects.all()},
    }


def write_entries(count: int, actor: str) -> None:
    """Write audit entries, each in a transaction that has read before."""
    for number in range(count):
        with transaction.atomic():
            AuditEntry.objects.count()
            append(actor=actor, action="race.run", subject="the chain", detail={"number": number})


def verify_log() -> list[Any]:
    """Return how many entries there are, and what a verification finds."""
    links = [entry.link for entry in AuditEntry.objects.order_by("sequence")]
    return [len(links), [str(item) for item in verify(links, current_head())]]


def rows_of_last(what: str) -> Any:
    last = Rebuild.objects.order_by("-pk").first()
    return getattr(last, what).all() if last else []


def lock(seconds: float, about: str) -> None:
    """Hold what a writer holds: of SQLite the whole file, of the others the rows of every rebuild."""
    with transaction.atomic():
        Rebuild.objects.update(reason="locked")
        Path(about).touch()
        time.sleep(seconds)


def start_while_a_hold_goes(running: int) -> list[int]:
    """Let the hold of one rebuild go at the moment at which the holds have been looked at."""
    look_at_holds = starts.held

    def held() -> dict[int, str]:
        answer = look_at_holds()
        end([running])
        return answer

    starts.held = held
    try:
        return scheduler.start_what_can()
    finally:
        starts.held = look_at_holds


def forget_leases() -> None:
    """Let every lease run out now."""
    Rebuild.objects.update(lease_until=None)


def look_again() -> dict[str, Any]:
    """Look with a new connection: the server may have been restarted."""
    connection.close()
    return look()


def hang_in(deed: str, arguments: list[Any], about: str) -> None:
    """Run an operation and stop at its announcement: every row is written and the transaction is open."""

    def stand_still(*_: Any, **__: Any) -> None:
        Path(about).touch()
        os.kill(os.getpid(), signal.SIGSTOP)

    for module in (rebuild_requests, starts, rebuild_driver):
        module.log_event = stand_still  # type: ignore[attr-defined]
    DEEDS[deed](*arguments)


class Counting(Step):
    """A step of five checks of a fifth of a second: it logs each and remembers how far it is."""

    title = "a step of the test"

    def __init__(self, name: str) -> None:
        self.name = name  # type: ignore[misc]

    def advance(self, run: Run) -> StepOutcome:
        count = run.checkpoint.get(self.name, 0) + 1
        run.checkpoint[self.name] = count
        run.journal.say(f"{self.name} {count}")
        run.journal.check()
        return done() if count >= 5 else again(0.2)


COUNTING = tuple(Counting(name) for name in ("one", "two", "three", "four", "five", "six"))


def queue_counting() -> int:
    """Queue a rebuild of the fleet whose steps only count."""
    METHODS["xbstream"] = replace(METHODS["xbstream"], steps=COUNTING)
    return int(request("counting", fleet())[1])


def work(seconds: float) -> list[str]:
    """Be beat and worker until every rebuild is over. Return what went wrong: each is one task that failed."""
    METHODS["xbstream"] = replace(METHODS["xbstream"], steps=COUNTING)
    failures, deadline = [], time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            scheduler.start_what_can()
            for pk in rebuild_driver.due(timezone.now()):
                while rebuilds.RebuildDriver.tick(pk) == 0:
                    pass
            if not Rebuild.objects.exclude(status__in=FINAL).exists():
                break
        except AWAY as error:
            failures.append(f"{type(error).__name__}: {error}")
        finally:
            connection.close()  # as Celery does after each task
        time.sleep(0.2)
    return failures


APPROVALS: dict[str, Callable[..., None]] = {
    "approve": approve_rebuild,
    "decline": decline_rebuild,
    "override": override_approval,
}
DEEDS: dict[str, Callable[..., Any]] = {
    deed.__name__: deed
    for deed in (
        *(empty, instances, queue, start_what_can, start, end, take_lease, lend_lease, finish, fleet, request, look),
        *(lock, hang_in, queue_counting, work, end_queued, make_holds_not_unique, start_while_a_hold_goes),
        *(forget_leases, look_again, write_entries, verify_log, ask_for_approval, say, colleague, decisions),
    )
}
