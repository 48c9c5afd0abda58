"""Give a sample fleet the longest values that dbops accepts, each as one word that no browser breaks on its own.

``manage.py shell`` runs ``lengthen`` on the sample's database.
"""

import re
from collections.abc import Callable
from typing import Any

from django.apps import apps
from django.contrib.auth.models import User
from django.db import models

from dbops.audit.log import append
from dbops.database import clock
from dbops.models import (
    AccessToken,
    AuditSink,
    BackupSchedule,
    Cluster,
    Discovery,
    Host,
    Instance,
    InventorySource,
    NotificationChannel,
    NotificationRule,
    TopologyDifference,
)
from dbops.models.secret import SecretTextField

#: The widest letter.
WIDE = "W"
#: Lengths of texts without a limit, of names and accounts, and of servers' versions.
TEXT, NAME, ACCOUNT, VERSION = 300, 63, 150, 60
NAMED = (Cluster, Host, Instance, BackupSchedule, InventorySource, NotificationChannel, NotificationRule, User)
#: Columns, and keys of JSON, that people or servers fill.
FREE = {
    *(
        "accepted_by",
        "address",
        "advice",
        "approval_by",
        "approval_reason",
        "because",
        "browser",
        "cancel_requested_by",
    ),
    *("cause", "created_by", "database", "datadir", "defaults_file", "detail", "digest_text", "directory"),
    *("host_key_accepted_by", "hostname", "ignored_by", "known", "listed", "login", "model", "next_step", "note"),
    *("os_user", "outcome", "output", "owner", "path", "problem", "query", "reason", "reference", "requested_by"),
    *("requested_login", "said", "seen", "shown", "sql", "ssh_address", "ssh_user", "stopped", "systemd_unit"),
    *("table", "text", "ticket", "user", "version", "version_comment", "waiting_for", "work_dir"),
}
#: Of 120 characters.
CRON = f"30 1 {','.join(map(str, range(1, 32)))} {','.join(map(str, range(1, 13)))} *"
#: The longest of the audit log.
ACTIONS = ("inventory_source.difference_ignored", "override.approved_from_same_address", "topology.difference_accepted")


def longest(name: str, size: int = NAME) -> str:
    """Return the name that ``lengthen`` gives to what the sample calls ``name``."""
    return re.sub(r"\W", "", name).ljust(size, WIDE)


def lengthen() -> None:
    """Rename everything in every row, fill free texts, and add rows that the sample lacks."""
    names = {old: new for model in NAMED for old, new in _rename(model).items()}
    found = re.compile(rf"(?<![\w.-])({'|'.join(sorted(map(re.escape, names), key=len, reverse=True))})(?![\w-])")
    for model in apps.get_app_config("dbops").get_models():
        if not model.__name__.startswith("Audit"):  # its rows are guarded
            _rewrite(model, lambda text: found.sub(lambda match: names[match[1]], text))
    BackupSchedule.objects.update(cron=CRON)
    _add_rows()
    _add_audit_entries()


def _rename(model: Any) -> dict[str, str]:
    """Give each row the longest name; return the names by the old ones."""
    column = "username" if model is User else "name"
    size, names = model._meta.get_field(column).max_length, {}
    for key, old in model.objects.values_list("pk", column):
        names[old] = longest(old, size)
        model.objects.filter(pk=key).update(**{column: names[old]})
    return names


def _rewrite(model: Any, renamed: Callable[[str], str]) -> None:
    for row in model.objects.all():
        after = {field.name: _column(field, getattr(row, field.attname), renamed) for field in _texts(model)}
        model.objects.filter(pk=row.pk).update(**after)


def _texts(model: Any) -> list[Any]:
    """Return the columns of free texts and of JSON."""
    kinds = (models.CharField, models.TextField, models.JSONField)
    return [
        field
        for field in model._meta.concrete_fields
        if isinstance(field, kinds) and not (isinstance(field, SecretTextField) or field.choices or field.unique)
    ] or [model._meta.pk]


def _column(field: Any, value: Any, renamed: Callable[[str], str]) -> Any:
    if isinstance(field, models.JSONField):
        return _in_json(value, renamed)
    size = field.max_length or TEXT
    return _filled(field.name, renamed(value), size)[:size] if isinstance(value, str) else value


def _in_json(value: Any, renamed: Callable[[str], str], name: str = "") -> Any:
    if isinstance(value, dict):
        return {renamed(key) if "-" in key else key: _in_json(item, renamed, key) for key, item in value.items()}
    if isinstance(value, list):
        return [_in_json(item, renamed, name) for item in value]
    return _filled(name, renamed(value), TEXT) if isinstance(value, str) else value


def _filled(name: str, value: str, size: int) -> str:
    return value.ljust(VERSION if name == "version" else size, WIDE) if name in FREE and value else value


def _add_rows() -> None:
    now, cluster, word = clock.now(), Cluster.objects.get(name=longest("shop")), WIDE * TEXT
    made = {"created_by": WIDE * ACCOUNT, "created_at": now}
    for purpose in ("report", "api"):
        AccessToken.objects.create(
            name=longest(purpose),
            purpose=purpose,
            prefix=WIDE * 8,
            digest=purpose,
            cluster=cluster,
            user=User.objects.order_by("pk").first(),
            **made,
        )
    AuditSink.objects.create(
        name=WIDE * 60, address=f"https://{word}", sent_sequence=0, next_try_at=now, error={"cause": word}, **made
    )
    TopologyDifference.objects.create(
        cluster=cluster,
        code="role",
        subject=WIDE * NAME,
        about=word,
        detail=word,
        matters=True,
        first_seen_at=now,
        last_seen_at=now,
        confirmed_at=now,
    )
    Discovery.objects.create(
        requested_by=WIDE * ACCOUNT,
        requested_at=now,
        address=WIDE * 253,
        user=WIDE * 80,
        status="failed",
        cluster=cluster,
    )


def _add_audit_entries() -> None:
    for action in ACTIONS:
        append(
            actor=WIDE * ACCOUNT,
            action=action,
            subject=WIDE * 200,
            instance=WIDE * 200,
            cluster=WIDE * 200,
            reason=WIDE * TEXT,
            detail={"address": WIDE * 253, WIDE * NAME: WIDE * TEXT, "source": WIDE * NAME},
        )
