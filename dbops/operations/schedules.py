"""Operations on backup schedules: add, change, enable, disable, remove."""

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from dbops.audit.log import append
from dbops.engine.errors import Refused
from dbops.engine.phrases import joined, phrase
from dbops.engine.states import ACTIVE, RUN_ACTIVE
from dbops.fleetfile import rules, stored
from dbops.fleetfile.schedules import schedule_problems
from dbops.fleetfile.store import store
from dbops.models import BackupRun, BackupSchedule, Rebuild
from dbops.operations.audit import record_item
from dbops.security.permissions import require_operator


def save_schedule(*, actor: User, schedule: BackupSchedule | None, values: Mapping[str, Any]) -> BackupSchedule:
    """Add a schedule (``None``) or change one, and update its next due time.

    Args:
        values: fields of the model, all of them for a new schedule. Instance and name can't change later.

    Raises:
        Refused: ``access.denied``, ``schedule.invalid``, or the schedule was removed (``schedule.gone``).
    """
    name = schedule.name if schedule else values.get("name", "")
    operation = phrase("Saving backup schedule {name}", name=name)
    instance = schedule.instance if schedule else values.get("instance")
    require_operator(actor, operation, instance.cluster_id if instance else None)
    try:
        with transaction.atomic():
            # The inventory's lock: the instance can't move to another host during the save.
            fleet = stored.load(lock=True)
            current = _lock(schedule, operation) if schedule else None
            _check(operation, current, {**_fields(current), **values}, fleet)
            written, item = store(current, BackupSchedule, values, actor=actor.get_username())
            record_item(actor.get_username(), item, via="browser")
    except (ValidationError, IntegrityError) as error:
        found = " ".join(error.messages) if isinstance(error, ValidationError) else phrase("the name is taken")
        raise Refused.unchanged("schedule.invalid", operation, found) from error
    return written


def set_enabled(*, actor: User, schedule: BackupSchedule, is_enabled: bool) -> None:
    """Enable or disable a schedule. Running backups continue.

    Raises:
        Refused: ``access.denied``, ``schedule.gone``.
    """
    save_schedule(actor=actor, schedule=schedule, values={"is_enabled": is_enabled})


def remove_schedule(*, actor: User, schedule: BackupSchedule) -> None:
    """Remove a schedule. Its runs stay listed and its backups are kept.

    Raises:
        Refused: ``access.denied``, ``schedule.gone``; a run of the schedule, or a rebuild that queues one at its end, is active
            (``schedule.busy``).
    """
    operation = phrase("Removing backup schedule {schedule}", schedule=schedule.name)
    require_operator(actor, operation, schedule.instance.cluster_id)
    with transaction.atomic():
        row = _lock(schedule, operation)
        run = BackupRun.objects.filter(schedule=row, status__in=RUN_ACTIVE).first()
        rebuild = Rebuild.objects.filter(requeue_schedule=row, status__in=ACTIVE).only("pk").first()
        if run or rebuild:
            found = (
                phrase("{run} of this schedule is {status}", run=run, status=run.status)
                if run
                else phrase("{rebuild} queues a run of it at its end", rebuild=rebuild)
            )
            raise Refused.unchanged("schedule.busy", operation, found)
        instance = row.instance.name
        row.delete()
        append(actor=actor.get_username(), action="schedule.removed", subject=row.name, instance=instance)


def _lock(schedule: BackupSchedule, operation: str) -> BackupSchedule:
    row = BackupSchedule.objects.select_for_update().filter(pk=schedule.pk).first()
    if row is None:
        raise Refused.unchanged("schedule.gone", operation, phrase("the schedule was removed"))
    return row


def _fields(row: BackupSchedule | None) -> dict[str, Any]:
    names = ("run_by", "directory", "cron", "time_zone", "instance")
    return {name: getattr(row, name) for name in names} if row else {}


def _check(operation: str, row: BackupSchedule | None, values: dict[str, Any], fleet: stored.StoredInventory) -> None:
    if row and (values["instance"] != row.instance or values.get("name", row.name) != row.name):
        raise Refused.unchanged(
            "schedule.invalid",
            operation,
            phrase("the instance and name of a schedule can’t change, because runs and reports refer to them"),
        )
    role = values["instance"].role if values.get("instance") else ""
    problems = [problem for name, value in values.items() if (problem := rules.own_problem(name, value))]
    datadirs = fleet.datadirs_on_host_of(values["instance"]) if values.get("instance") else {}
    problems += [text for _, text in schedule_problems(values, datadirs, role=role)]
    if problems:
        raise Refused.unchanged("schedule.invalid", operation, joined(dict.fromkeys(problems), "; "))
