"""Record what hosts report about their backups. A token covers only the instances of its cluster."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dbops.database import clock
from dbops.engine.backups.matching import Where
from dbops.engine.errors import Refused
from dbops.engine.schedule.occupancy import reservations_of
from dbops.engine.states import BackupMethod
from dbops.lifecycle import run_reports
from dbops.lifecycle.run_reports import ReportKind, RunReport
from dbops.loaders.cluster_snapshots import snapshot_of
from dbops.models import AccessToken, BackupRun, BackupSchedule, Hold, Instance

KEY = re.compile(r"[A-Za-z0-9._-]{8,64}")
#: Longest time in a report, in seconds: a month.
LONGEST_SECONDS = 31 * 86400
MOST_BYTES = 2**62
TEXT_CHARACTERS = 1000


@dataclass(frozen=True, slots=True)
class Leave:
    """Whether a backup may start now. ``until`` is the expected end of the holder; ``None`` if unknown."""

    instance: str
    may_start: bool
    because: str = ""
    since: datetime | None = None
    until: datetime | None = None


def take_report(*, token: AccessToken, key: str, kind: str, said: Mapping[str, Any]) -> BackupRun:
    """Record one report. A repeated report changes nothing.

    Args:
        key: the reporter's unique name of the run.
        kind: a ``ReportKind``.
        said: ``instance`` or ``schedule``; ``method``; ``started_seconds_ago``, ``ended_seconds_ago`` (counted back from
            now, so that a host's clock does not matter); ``bytes``, ``path``, ``exit_status``, ``pid``, ``host``, ``command``.

    Raises:
        Refused: the report is invalid (``report.invalid``), the instance is not in the token's cluster
            (``report.unknown_instance``), or the key belongs to another run (``report.key_taken``).
    """
    now = clock.now()
    if not KEY.fullmatch(key):
        raise _invalid("the key must be 8 to 64 letters, digits, dots, dashes or underscores")
    instance, schedule = _subject(token, _text(said, "instance"), _text(said, "schedule"))
    method = _method(_text(said, "method"), schedule)
    started, ended = (_number(said, f"{name}_seconds_ago", LONGEST_SECONDS) for name in ("started", "ended"))
    status = _number(said, "exit_status", 255)
    if kind == ReportKind.END and status is None:
        raise _invalid("the report of an end has no exit_status")
    host = _text(said, "host")
    report = RunReport(
        key=key,
        kind=ReportKind(kind),
        method=method,
        started_at=now - timedelta(seconds=started) if started is not None else None,
        ended_at=now - timedelta(seconds=ended) if ended is not None else None,
        where=_where(instance, host),
        pid=_number(said, "pid", 2**31),
        host=host,
        command=_text(said, "command"),
        path=_text(said, "path"),
        bytes=_number(said, "bytes", MOST_BYTES),
        exit_status=status,
        schedule_id=schedule.pk if schedule else None,
    )
    return run_reports.report_run(instance, report, now)


def may_start(*, token: AccessToken, instance: str, schedule: str = "") -> Leave:
    """Return whether an instance is free for a backup: no rebuild and no managed backup holds it.

    A running external backup does not count: its own job is responsible for overlaps, and a run whose end was
    never reported must not block the next ones.

    Raises:
        Refused: like ``take_report``.
    """
    found, _ = _subject(token, instance, schedule)
    hold = Hold.objects.filter(instance=found).first()
    if hold is None:
        return Leave(found.name, True)
    what = f"rebuild {hold.rebuild_id}" if hold.rebuild_id else f"backup run {hold.backup_run_id}"
    because = f"{what} holds {found.name}" + (f" as its {hold.purpose}" if hold.rebuild_id else "")
    return Leave(found.name, False, because, hold.taken_at, _expected_end(found, hold))


def _expected_end(instance: Instance, hold: Hold) -> datetime | None:
    """Return the expected end of an instance's hold, as on the queue page; ``None`` if unknown."""
    for stay in reservations_of(snapshot_of(instance.cluster)):
        is_holder = (stay.job.rebuild, stay.job.run) == (hold.rebuild_id, hold.backup_run_id)
        if stay.instance == instance.name and is_holder:
            return stay.end.p50
    return None


def _subject(token: AccessToken, instance: str, schedule: str) -> tuple[Instance, BackupSchedule | None]:
    """Return the instance and schedule of a report. Names in other clusters are not revealed."""
    found = None
    if schedule:
        rows = BackupSchedule.objects.select_related("instance__state", "instance__cluster")
        found = rows.filter(name=schedule, instance__cluster=token.cluster_id).first()
        if found and instance in ("", found.instance.name):
            return found.instance, found
    elif instance:
        one = (
            Instance.objects.select_related("state", "cluster").filter(name=instance, cluster=token.cluster_id).first()
        )
        if one:
            return one, None
    else:
        raise _invalid("the report names neither an instance nor a schedule")
    what = (
        f"schedule {schedule!r}" + (f" of instance {instance!r}" if instance else "")
        if schedule
        else f"instance {instance!r}"
    )
    raise Refused(
        "report.unknown_instance",
        "Recording a backup report",
        cause=f"the cluster {token.cluster} of this token has no {what}",
    )


def _method(asked: str, schedule: BackupSchedule | None) -> BackupMethod:
    word = asked or (schedule.method if schedule else BackupMethod.DUMP)
    if word not in set(BackupMethod):
        raise _invalid(f"method must be one of {', '.join(BackupMethod)}")
    return BackupMethod(word)


def _where(instance: Instance, host: str) -> Where:
    """Return whether the reporter runs on the instance's host, by comparing short host names."""
    state = getattr(instance, "state", None)
    facts = state.facts() if state else None
    if not host or facts is None or facts.host is None:
        return Where.UNKNOWN
    is_here = host.partition(".")[0].lower() == facts.host.hostname.partition(".")[0].lower()
    return Where.HERE if is_here else Where.ELSEWHERE


def _text(said: Mapping[str, Any], name: str) -> str:
    value = said.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or "\0" in value:
        raise _invalid(f"{name} must be a string")
    return value[:TEXT_CHARACTERS]


def _number(said: Mapping[str, Any], name: str, most: int) -> int | None:
    value = said.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise _invalid(f"{name} must be a whole number from 0 to {most}")
    return value


def _invalid(found: str) -> Refused:
    return Refused(
        "report.invalid",
        "Reading a backup report",
        cause=found,
    )
