"""Give a sample fleet the longest values that dbops accepts, each as one word that no browser breaks on its own.

``manage.py shell`` runs ``lengthen`` on the sample's database.
"""

import re
from typing import Any

from django.apps import apps
from django.contrib.auth.models import User
from django.db import models

from dbops.audit.log import append
from dbops.database import clock
from dbops.engine.states import Status
from dbops.models import (
    AccessToken,
    AuditSink,
    BackupSchedule,
    Cluster,
    ConnectionTest,
    Discovery,
    Host,
    Instance,
    InventorySource,
    LoginSession,
    NotificationChannel,
    NotificationRule,
    Rebuild,
    TopologyDifference,
)
from dbops.models.secret import SecretTextField

#: The widest letter, and a text without a length of its own.
WIDE, TEXT = "W", 300
NAMED = (Cluster, Host, Instance, BackupSchedule, InventorySource, NotificationChannel, NotificationRule, User)
#: Columns and keys of JSON that people or servers fill.
FREE = {
    *("accepted_by", "address", "advice", "approval_by", "approval_reason", "because", "browser", "cancel_requested_by"),
    *("cause", "created_by", "database", "datadir", "defaults_file", "detail", "digest_text", "directory"),
    *("host_key_accepted_by", "hostname", "ignored_by", "known", "listed", "login", "model", "next_step", "note"),
    *("os_user", "outcome", "output", "owner", "path", "problem", "query", "reason", "reference", "requested_by"),
    *("requested_login", "said", "seen", "shown", "sql", "ssh_address", "ssh_user", "stopped", "systemd_unit"),
    *("table", "text", "ticket", "user", "version", "version_comment", "waiting_for", "work_dir"),
}
#: Of servers' versions.
VERSION = 60


def lengthen() -> None:
    """Rename everything in every row, fill free texts, and add rows that the sample lacks."""
    names = {old: longest for model in NAMED for old, longest in _renamed(model).items()}
    found = re.compile(rf"(?<![\w.-])({'|'.join(sorted(map(re.escape, names), key=len, reverse=True))})(?![\w-])")

    def renamed(value: str) -> str:
        return found.sub(lambda match: names[match[1]], value)

    for model in apps.get_app_config("dbops").get_models():
        if not model.__name__.startswith("Audit"):
            _rewrite(model, renamed)
    _add_rows()


def _renamed(model: type[models.Model]) -> dict[str, str]:
    """Give each row the longest name."""
    column = "username" if model is User else "name"
    size = model._meta.get_field(column).max_length
    names = {}
    for row in model.objects.all():
        old = getattr(row, column)
        names[old] = re.sub(r"\W", "", old).ljust(size, WIDE)
        setattr(row, column, names[old])
        row.save(update_fields=[column])
    return names


def _rewrite(model: type[models.Model], renamed: Any) -> None:
    for row in model.objects.all():
        changed = []
        for field in model._meta.concrete_fields:
            before = getattr(row, field.attname)
            after = _rewritten(field, before, renamed)
            if after != before:
                setattr(row, field.attname, after)
                changed.append(field.name)
        if changed:
            model.objects.filter(pk=row.pk).update(**{name: getattr(row, name) for name in changed})


def _rewritten(field: Any, value: Any, renamed: Any) -> Any:
    if isinstance(field, models.JSONField):
        return _in_json(value, renamed)
    plain = isinstance(field, models.CharField | models.TextField) and not isinstance(field, SecretTextField)
    if not plain or not value or field.choices or field.unique:
        return value
    longest = field.max_length or TEXT
    return _filled(field.name, renamed(value), longest)[:longest]


def _filled(name: str, value: str, longest: int) -> str:
    longest = VERSION if name == "version" else longest
    return value.ljust(longest, WIDE) if name in FREE and value else value


def _in_json(value: Any, renamed: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {renamed(key) if "-" in key else key: _in_json(item, renamed, key) for key, item in value.items()}
    if isinstance(value, list):
        return [_in_json(item, renamed, name) for item in value]
    return _filled(name, renamed(value), TEXT) if isinstance(value, str) else value


def _add_rows() -> None:
    now, cluster, person = clock.now(), Cluster.objects.first(), User.objects.first()
    word, name, by = WIDE * TEXT, WIDE * 63, WIDE * 150
    made = {"created_by": by, "created_at": now}
    for purpose in ("report", "api"):
        AccessToken.objects.create(
            name=f"{purpose}{name}"[:63], purpose=purpose, prefix=WIDE * 8, digest=purpose, cluster=cluster, user=person, **made
        )
    AuditSink.objects.create(name=WIDE * 60, address="https://" + word, sent_sequence=0, next_try_at=now, error={"code": "sink.refused", "cause": word}, **made)
    for matters in (True, False):
        TopologyDifference.objects.create(
            cluster=cluster, code="role", subject=name, about=word, detail=word, matters=matters,
            first_seen_at=now, last_seen_at=now, confirmed_at=now,
        )
    for action in ("inventory_source.difference_ignored", "override.approved_from_same_address", "topology.difference_accepted"):
        append(
            actor=by, action=action, subject=WIDE * 200, reason=word, instance=WIDE * 200, cluster=WIDE * 200,
            detail={"address": word, WIDE * 60: word, "source": name},
        )
