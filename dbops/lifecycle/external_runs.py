"""External backup runs: rows from probes and reports, merged if they are one run.

The instance's lock serializes the matching: of a simultaneous probe and report, the second finds the row of the
first.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import F, Q

from dbops.database import clock
from dbops.engine.availability.days import day_of
from dbops.engine.backups.matching import (
    FAMILY_GAP,
    KnownRun,
    Sighting,
    Where,
    connection_key,
    joined,
    sightings_of,
    which_run,
)
from dbops.engine.facts.backups import BackupConnection, BackupProcess
from dbops.engine.facts.instance import InstanceFacts
from dbops.engine.methods import method_named
from dbops.engine.phrases import phrase
from dbops.engine.schedule.conflicts import meaning_alongside
from dbops.engine.states import RUN_ACTIVE, BackupMethod, Level, RunOrigin, RunStatus
from dbops.lifecycle.availability_rollups import recount
from dbops.lifecycle.events import announce_later, log_event
from dbops.lifecycle.run_flags import flag
from dbops.lifecycle.run_schedules import assign_schedule
from dbops.models import BackupEvent, BackupRun, Hold, Instance, Rebuild
from dbops.models.phrases import with_phrases
from dbops.security.redaction import redact

#: Time for the report of an end to arrive after a probe sees the process gone, and for a busy server to answer again.
GRACE = timedelta(seconds=60)
SERVER_IS_SILENT = phrase("The server no longer answers. The result of the backup is unknown.")
END_UNKNOWN = phrase("The backup is no longer running. Its result is unknown.")


@contextmanager
def locked(instance: Instance) -> Iterator[None]:
    """Lock the instance's row in a transaction. On SQLite a transaction locks the whole database."""
    with transaction.atomic():
        rows = Instance.objects.select_for_update(no_key=connection.features.has_select_for_no_key_update)
        rows.only("pk").get(pk=instance.pk)
        yield


def observe(instance: Instance, facts: InstanceFacts) -> None:
    """Start, continue and end runs by the result of a probe, as far as it could read the host."""
    sightings = sightings_of(facts, is_held=_is_held(instance, facts))
    if not sightings and not _observed_active(instance).exists():
        return
    with locked(instance):
        rows = {run.pk: run for run in _candidates(instance, sightings)}
        known = {pk: KnownRun(pk, sightings_of_run(run)) for pk, run in rows.items()}
        alive = frozenset(process.key for process in facts.backup_processes or ())
        seen: set[int] = set()
        for sighting in sightings:
            found = which_run(sighting, known.values(), alive)
            evidence = _evidence(sighting, facts)
            if found is None and sighting.may_begin:
                run = _begin(instance, sighting, evidence)
            elif found is not None:
                run = rows[found.pk]
                _continue(run, sighting, evidence, facts.observed_at)
            else:
                continue
            rows[run.pk], known[run.pk] = run, KnownRun(run.pk, sightings_of_run(run))
            seen.add(run.pk)
        for run in rows.values():
            if run.pk not in seen and run.status in RUN_ACTIVE and run.origin != RunOrigin.MANAGED:
                _gone(run, facts, alive)


def record_sighting(
    instance: Instance, sighting: Sighting, evidence: dict[str, Any], *, schedule_id: int | None = None
) -> BackupRun:
    """Return the run of a report, created if necessary. The caller holds the lock."""
    rows = {run.pk: run for run in _candidates(instance, (sighting,))}
    found = which_run(sighting, [KnownRun(pk, sightings_of_run(run)) for pk, run in rows.items()])
    if found is None:
        return _begin(instance, sighting, evidence, schedule_id=schedule_id)
    run = rows[found.pk]
    if sighting.origin != run.origin:
        log_run_event(
            run, phrase("Origin changed from {origin} to {origin2}.", origin=run.origin, origin2=sighting.origin)
        )
    _write(run, joined(sightings_of_run(run), sighting), evidence)
    if schedule_id and run.schedule_id != schedule_id:
        assign_schedule(run, schedule_id=schedule_id)
    return run


def sightings_of_run(run: BackupRun) -> Sighting:
    """Return a row as a sighting."""
    known: dict[str, Any] = run.evidence or {}
    is_over = run.status not in RUN_ACTIVE
    started = run.started_at or run.queued_at or run.last_seen_at or clock.now()
    return Sighting(
        origin=RunOrigin(run.origin),
        method=BackupMethod(run.method),
        started_at=started,
        until=max(started, (run.finished_at if is_over else run.last_seen_at) or started),
        is_over=is_over,
        start_is_unknown=bool(known.get("start_is_unknown")),
        where=Where(known.get("where", Where.UNKNOWN)),
        process=known.get("process", ""),
        parents=tuple(known.get("parents", ())),
        family=known.get("family", ""),
        connection=known.get("connection", ""),
        pid=known.get("reported_pid"),
        report_key=run.report_key or "",
    )


def log_run_event(run: BackupRun, text: str, *, level: Level = Level.INFO) -> None:
    BackupEvent.objects.create(run=run, at=clock.now(), level=level, text=redact(text))


def change(run: BackupRun, **values: Any) -> None:
    """Update these columns in the database and on the row. The caller holds the instance's lock."""
    phrases = with_phrases(outcome=values["outcome"]) if "outcome" in values else {}
    BackupRun.objects.filter(pk=run.pk).update(revision=F("revision") + 1, **{**values, **phrases})
    _recount(run, values)
    for name, value in values.items():
        setattr(run, name, value)


def _recount(run: BackupRun, values: dict[str, Any]) -> None:
    """Recount the availability of finished days if the start or end of a run changes."""
    now = clock.now()
    moments: list[datetime] = []
    if (started_at := values.get("started_at", run.started_at)) != run.started_at:
        moments += [moment for moment in (started_at, run.started_at) if moment]
    if (finished_at := values.get("finished_at", run.finished_at)) != run.finished_at:
        moments.append(min(finished_at or now, run.finished_at or now))
    if moments and day_of(min(moments)) < day_of(now):
        recount([run.instance.cluster_id], min(moments), now)


def end_unknown(run: BackupRun, at: datetime, text: str) -> None:
    """End a run with unknown result."""
    change(run, status=RunStatus.ENDED, finished_at=max(at, run.started_at or at), outcome=text)
    log_run_event(run, text)
    flag(run)


def mark_ended(run: BackupRun, by: str) -> bool:
    """Mark an external run as ended. Return whether it was active. The caller records it in the audit log.

    A later probe or report of the backup continues the run.
    """
    with locked(run.instance):
        run.refresh_from_db()
        if run.origin == RunOrigin.MANAGED or run.status not in RUN_ACTIVE:
            return False
        end_unknown(run, clock.now(), phrase("Marked as ended by {by}. The result of the backup is unknown.", by=by))
        return True


def _is_held(instance: Instance, facts: InstanceFacts) -> bool:
    """Return whether a managed job holds the instance; checked only for local connections and managed processes."""
    connections = (facts.server.backup_connections if facts.server else None) or ()
    ours = any(process.is_ours for process in facts.backup_processes or ())
    if not ours and not any(item.is_local for item in connections):
        return False
    if Hold.objects.filter(instance=instance).exists():
        return True
    since = facts.observed_at - GRACE
    runs = BackupRun.objects.filter(instance=instance, origin=RunOrigin.MANAGED, finished_at__gte=since)
    rebuilds = Rebuild.objects.filter(Q(source=instance) | Q(target=instance), finished_at__gte=since)
    return runs.exists() or rebuilds.exists()


def _observed_active(instance: Instance) -> Any:
    return BackupRun.objects.filter(instance=instance, status__in=RUN_ACTIVE).exclude(origin=RunOrigin.MANAGED)


def _candidates(instance: Instance, sightings: tuple[Sighting, ...]) -> list[BackupRun]:
    """Return active runs and recently ended runs that the sightings may belong to."""
    wanted = Q(status__in=RUN_ACTIVE)
    if sightings:
        since = min(item.started_at for item in sightings) - FAMILY_GAP
        wanted |= Q(finished_at__gte=since)
        keys = [item.report_key for item in sightings if item.report_key]
        wanted |= Q(report_key__in=keys)
    rows = BackupRun.objects.filter(wanted, instance=instance).exclude(status=RunStatus.MISSED)
    return list(rows.select_related("schedule").order_by("pk"))


def _begin(
    instance: Instance, sighting: Sighting, evidence: dict[str, Any], *, schedule_id: int | None = None
) -> BackupRun:
    run = BackupRun.objects.create(
        uid=secrets.token_hex(16),
        instance=instance,
        origin=sighting.origin,
        method=sighting.method,
        status=RunStatus.RUNNING,
        started_at=sighting.started_at,
        last_seen_at=sighting.until,
        report_key=sighting.report_key or None,
        evidence=_kept(sighting, evidence, {}),
        progress=_progress(evidence),
    )
    recount([instance.cluster_id], sighting.started_at, clock.now())
    log_run_event(
        run,
        phrase("First seen by a probe.")
        if sighting.origin == RunOrigin.OBSERVED
        else phrase("Start reported by the host."),
    )
    assign_schedule(run, schedule_id=schedule_id)
    flag(run)
    _log_overlap(run)
    return run


def _log_overlap(run: BackupRun) -> None:
    """Log an event on both jobs when an external backup overlaps a rebuild. One query without a rebuild."""
    holds = Hold.objects.select_related("rebuild", "instance").filter(rebuild__isnull=False)
    hold = holds.filter(instance=run.instance_id).first()
    if hold is None or hold.rebuild is None:
        return
    is_target, is_dump = hold.purpose == "target", run.method == BackupMethod.DUMP
    meaning = meaning_alongside(method_named(hold.rebuild.method), is_target=is_target, is_dump=is_dump)
    what = phrase(
        "external backup run {run} ({method}, {origin}) started during the rebuild",
        run=run.pk,
        method=run.method,
        origin=run.origin,
    )
    log_event(
        hold.rebuild,
        phrase("On {instance}, {what}. {meaning}", instance=hold.instance.name, what=what, meaning=meaning),
        level=Level.WARNING,
    )
    log_event(
        run,
        phrase(
            "Rebuild {rebuild} uses {instance} ({purpose}). {meaning}",
            rebuild=hold.rebuild.pk,
            instance=hold.instance.name,
            purpose=hold.purpose,
            meaning=meaning,
        ),
        level=Level.WARNING,
    )
    announce_later(hold.rebuild.pk)


def _continue(run: BackupRun, sighting: Sighting, evidence: dict[str, Any], observed_at: datetime) -> None:
    """Continue a run that a probe sees, unless a report ended it later than the probe."""
    if run.status in RUN_ACTIVE:
        _write(run, joined(sightings_of_run(run), sighting), evidence)
        if run.status == RunStatus.LOST:
            change(run, status=RunStatus.RUNNING)
    elif run.status == RunStatus.ENDED and run.finished_at and observed_at > run.finished_at:
        change(run, status=RunStatus.RUNNING, finished_at=None, outcome="")
        _write(run, joined(sightings_of_run(run), sighting), evidence)
        log_run_event(run, phrase("Seen by a probe again."))


def _write(run: BackupRun, said: Sighting, evidence: dict[str, Any]) -> None:
    change(
        run,
        origin=said.origin,
        started_at=said.started_at,
        last_seen_at=max(said.until, run.last_seen_at or said.until),
        report_key=said.report_key or None,
        evidence=_kept(said, evidence, run.evidence),
        progress={**run.progress, **_progress(evidence)},
    )


def _kept(said: Sighting, evidence: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    identity = {
        "where": said.where,
        "process": said.process,
        "parents": list(said.parents),
        "family": said.family,
        "connection": said.connection,
        "reported_pid": said.pid,
        "start_is_unknown": said.start_is_unknown,
    }
    new = {name: value for name, value in evidence.items() if value not in ("", None)}
    return {**{key: value for key, value in before.items() if key != "gone_at"}, **new, **identity}


def _progress(evidence: dict[str, Any]) -> dict[str, Any]:
    return {"bytes": evidence["bytes_now"]} if evidence.get("bytes_now") is not None else {}


def _evidence(sighting: Sighting, facts: InstanceFacts) -> dict[str, Any]:
    """Return details that a person can find on the host or in the server."""
    if sighting.process:
        return _of_process(next(item for item in facts.backup_processes or () if item.key == sighting.process))
    connections = (facts.server.backup_connections if facts.server else None) or ()
    return _of_connection(next(item for item in connections if connection_key(item) == sighting.connection))


def _of_process(process: BackupProcess) -> dict[str, Any]:
    return {
        "pid": process.pid,
        "tool": process.tool,
        "user": process.user,
        "command": redact(process.command),
        "because": process.because,
        "output_path": process.output_path,
        "bytes_now": process.output_bytes,
    }


def _of_connection(item: BackupConnection) -> dict[str, Any]:
    return {
        "tool": item.tool,
        "user": item.user,
        "client": item.client,
        "statement": redact(item.statement),
        "because": f"connection {item.number} of {item.user} from {item.client} sends backup statements",
    }


def _gone(run: BackupRun, facts: InstanceFacts, alive: frozenset[str]) -> None:
    """End a run that this probe should have seen and did not see.

    A run known only by its connection also ends if its server no longer answers.
    """
    known = run.evidence or {}
    process, connections = known.get("process"), facts.server.backup_connections if facts.server else None
    is_silent = not process and _server_is_silent(facts)
    could_see = facts.backup_processes is not None if process else known.get("connection") and connections is not None
    if known.get("connection") and is_silent:
        could_see = True
    if not could_see or process in alive or (run.last_seen_at and facts.observed_at <= run.last_seen_at):
        return
    text = SERVER_IS_SILENT if is_silent else END_UNKNOWN
    if run.origin == RunOrigin.OBSERVED and not is_silent:
        end_unknown(run, facts.observed_at, text)
        return
    gone_at = known.get("gone_at")
    if gone_at is None:
        change(run, evidence={**known, "gone_at": facts.observed_at.isoformat()})
    elif facts.observed_at - datetime.fromisoformat(gone_at) > GRACE:
        if run.origin != RunOrigin.OBSERVED:
            text = phrase("{text} Its host reported a start but no end.", text=text)
        end_unknown(run, datetime.fromisoformat(gone_at), text)


def _server_is_silent(facts: InstanceFacts) -> bool:
    """Return whether the server is unreachable while its host answers.

    A refused login counts as an answer: backups may continue.
    """
    problem = facts.server_problem
    return (
        facts.server is None and facts.host is not None and problem is not None and problem.code == "mysql.unreachable"
    )
