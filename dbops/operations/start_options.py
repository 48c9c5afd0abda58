"""Load the start options of a rebuild, and store the chosen one."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings

from dbops.database import clock
from dbops.engine.errors import Refused
from dbops.engine.methods import DEFAULT_METHOD, METHODS
from dbops.engine.phrases import joined, phrase
from dbops.engine.planning.inputs import archive_for, bytes_to_copy
from dbops.engine.schedule.backup_windows import Prediction
from dbops.engine.schedule.conflicts import Activity, Effect
from dbops.engine.schedule.eligibility import Eligibility, eligibility_of
from dbops.engine.schedule.snapshot import ClusterSnapshot
from dbops.engine.schedule.start_option_keys import StartMode, StartOption, moment_of
from dbops.engine.schedule.start_options import chosen_option, start_options
from dbops.engine.states import BackupMethod
from dbops.lifecycle.rebuild_requests import RequestedStart
from dbops.loaders.cluster_snapshots import predicted, snapshot_of
from dbops.loaders.members import member_of
from dbops.loaders.plan_inputs import archives_to_read
from dbops.models import BackupRun, BackupSchedule, Instance

#: Bounds of the expiry: an hour to a week.
EXPIRES_HOURS = range(1, 7 * 24 + 1)


@dataclass(frozen=True, slots=True)
class StartOptions:
    """Start options on a page: eligibility, every option, and the duration of the rebuild.

    ``snapshot`` is the cluster snapshot that they were computed from.
    """

    eligibility: Eligibility
    options: tuple[StartOption, ...]
    snapshot: ClusterSnapshot
    prediction: Prediction

    def chosen(self, key: str) -> StartOption | None:
        """Return the option with that key, possible or not; the first of all if there is none."""
        named = next((choice for choice in self.options if choice.key == key), None)
        return named or chosen_option(self.options, key) or next(iter(self.options), None)


def offered_start_options(
    target: Instance, source: Instance | None, *, method: str = DEFAULT_METHOD, key: str = ""
) -> StartOptions:
    """Return a target's eligibility and every start option of its rebuild from a source. Reads tables only.

    ``key`` is the person's choice; it adds the time that they named, if any.
    """
    snapshot = snapshot_of(target.cluster)
    if method != DEFAULT_METHOD:
        snapshot = _as_seen_by(method, snapshot, target, source)
    name = source.name if source else None
    return StartOptions(
        eligibility=eligibility_of(snapshot, target=target.name, source=name, method=METHODS[method]),
        options=start_options(
            snapshot,
            target=target.name,
            source=name,
            method=METHODS[method],
            stoppable=stoppable(snapshot),
            moment=moment_of(key),
        )
        if name
        else (),
        snapshot=snapshot,
        prediction=snapshot.predicted(name),
    )


def _as_seen_by(method: str, snapshot: ClusterSnapshot, target: Instance, source: Instance | None) -> ClusterSnapshot:
    """Return the snapshot for another method than the default one: with its own durations and readable backups."""
    archives = archives_to_read(target.cluster_id)
    there = {(one.instance, one.method) for one in archives}
    size = (
        bytes_to_copy(member_of(source), archive_for(METHODS[method], archives, source=source.name)) if source else None
    )
    machines = tuple(
        replace(
            machine,
            has_archive=(machine.name, BackupMethod.PHYSICAL) in there,
            has_dump=(machine.name, BackupMethod.DUMP) in there,
        )
        for machine in snapshot.machines
    )
    return replace(
        snapshot,
        machines=machines,
        predictions={},
        prediction=predicted(method, {target.cluster_id: size})[target.cluster_id],
    )


def stoppable(snapshot: ClusterSnapshot) -> frozenset[int]:
    """Return the backup runs that can be stopped for a rebuild: those of dbops whose host can be reached."""
    return frozenset(job.run for job in snapshot.jobs if job.run is not None and job.can_be_stopped and not job.is_lost)


def default_expires_hours() -> int:
    """Return the default number of hours until a queued rebuild expires."""
    return max(1, settings.QUEUE_EXPIRES_SECONDS // 3600)


def choose(
    *, target: Instance, source: Instance, method: str, key: str, expires_hours: int | None
) -> tuple[StartOption, RequestedStart]:
    """Return the current state of the chosen start option, with its stored form. Call it in the transaction that stores it.

    Args:
        key: of the chosen option.
        expires_hours: hours until a queued rebuild expires, from its earliest start on.

    Raises:
        Refused: something blocks every start (``plan.blocked``, ``rebuild.busy``), the option has changed
            (``plan.start_stale``), or the hours are out of bounds (``plan.expiry``).
    """
    operation = phrase("Choosing when to rebuild {target}", target=target.name)
    if expires_hours is not None and expires_hours not in EXPIRES_HOURS:
        found = phrase("{expires_hours} hours is out of range", expires_hours=expires_hours)
        raise Refused.unchanged(
            "plan.expiry",
            operation,
            found,
            next_step=phrase(
                "Enter {expires_hours} to {expires_hours_2} hours.",
                expires_hours=EXPIRES_HOURS[0],
                expires_hours_2=EXPIRES_HOURS[-1],
            ),
        )
    offered = offered_start_options(target, source, method=method, key=key)
    choice = chosen_option(offered.options, key)
    if choice is None or choice.way is StartMode.ELSEWHERE:
        raise _why_not(operation, offered, key)
    return choice, _stored(choice, expires_hours)


def audited(choice: StartOption, begin: RequestedStart) -> dict[str, Any]:
    """Return the details of a choice for the audit log."""
    return {
        "start": choice.key,
        "not_before": begin.not_before.isoformat() if begin.not_before else None,
        "start_after_run": begin.start_after_run.pk if begin.start_after_run else None,
        "requeue_schedule": begin.requeue_schedule.name if begin.requeue_schedule else None,
        "expires_at": begin.expires_at.isoformat() if begin.expires_at else None,
    }


def _why_not(operation: str, offered: StartOptions, key: str) -> Refused:
    blocking = [item for item in offered.eligibility.blockers if item.effect is Effect.BLOCKS]
    if any(item.work is Activity.TARGET_REPLACED for item in blocking):
        found = phrase("another rebuild of this instance is queued or running")
        return Refused.unchanged("rebuild.busy", operation, found)
    if blocking:
        found = joined(part for item in blocking for part in (item.text, item.reason))
        next_step = joined(item.clears for item in blocking)
        return Refused.unchanged("plan.blocked", operation, found, next_step)
    why = next(
        (choice.reason for choice in offered.options if choice.key == key), phrase("this option is no longer offered")
    )
    return Refused.unchanged("plan.start_stale", operation, why)


def _stored(choice: StartOption, expires_hours: int | None) -> RequestedStart:
    now = clock.now()
    earliest = max(choice.not_before or now, now)
    patience = timedelta(hours=expires_hours) if expires_hours else timedelta(seconds=settings.QUEUE_EXPIRES_SECONDS)
    expires_at = earliest + patience
    if choice.start_by:
        expires_at = min(expires_at, choice.start_by)
    run = BackupRun.objects.filter(pk=choice.start_after_run).first() if choice.start_after_run else None
    schedule = BackupSchedule.objects.filter(name=choice.requeue_schedule).first() if choice.requeue_schedule else None
    return RequestedStart(
        not_before=choice.not_before,
        start_after_run=run,
        requeue_schedule=schedule,
        expires_at=expires_at,
        description=_description(choice, expires_at, is_chosen=choice.is_deferred or expires_hours is not None),
    )


def _description(choice: StartOption, expires_at: datetime, *, is_chosen: bool) -> str:
    """Return the chosen start as text for the history; empty without a choice."""
    if not is_chosen:
        return ""
    start = {
        StartMode.AFTER_WINDOW: f"Start after a backup: not before {_clock(choice.not_before)}.",
        StartMode.AT: f"Start at a chosen time: not before {_clock(choice.not_before)}.",
        StartMode.AFTER_MAINTENANCE: f"Start after the maintenance: not before {_clock(choice.not_before)}.",
        StartMode.BEFORE_WINDOW: f"Start in time to end before the backup of {_clock(choice.window_at)}.",
        StartMode.AFTER_RUN: f"Start when backup run {choice.start_after_run} ends.",
        StartMode.STOP_RUN: f"Backup run {choice.stops_run} is stopped for this rebuild; {choice.requeue_schedule} runs again afterwards.",
    }.get(choice.way, "Start as soon as possible.")
    return phrase("{start} Expires {clock}.", start=start, clock=_clock(expires_at))


def _clock(moment: datetime | None) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M UTC}" if moment else "at an unknown time"
