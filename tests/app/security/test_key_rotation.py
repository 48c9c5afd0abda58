"""Rotation of the key of stored secrets: every column, whatever is added, and processes that run on."""

import threading
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.core.management import CommandError, call_command
from django.db.models import Model
from django.test import Client

from dbops.database import clock
from dbops.engine.errors import Refused
from dbops.models import (
    AuditEntry,
    AuditSink,
    Cluster,
    Discovery,
    Host,
    Instance,
    InventorySource,
    NotificationChannel,
    secret,
)
from dbops.models.fleet import ACCOUNTS
from dbops.models.secret import as_stored, as_token, secret_columns
from dbops.operations import secrets
from dbops.queries.admin.credentials import OTHERS, SECRETS
from dbops.security.key_file import change_keys
from tests.app.factories import make_cluster, make_host, make_instance

pytestmark = pytest.mark.django_db

USERS = {f"{account}_user": "somebody" for account in ACCOUNTS}
#: A row of each table with an encrypted column. A test fails until a new table has one here.
MAKERS: dict[type[Model], Callable[..., Model]] = {
    Cluster: lambda name, **more: make_cluster(name, **USERS, **more),
    Host: make_host,
    Instance: lambda name, **more: make_instance(
        name, cluster=Cluster.objects.get(), host=Host.objects.get(), **USERS, **more
    ),
    AuditSink: lambda name, **more: AuditSink.objects.create(
        name=name,
        address="https://siem.example",
        created_at=clock.now(),
        next_try_at=clock.now(),
        sent_sequence=0,
        **more,
    ),
    NotificationChannel: lambda name, **more: NotificationChannel.objects.create(
        name=name, kind="webhook", shown="x", created_at=clock.now(), next_try_at=clock.now(), **more
    ),
    InventorySource: lambda name, **more: InventorySource.objects.create(
        name=name,
        kind="orchestrator",
        address="https://o.example",
        created_at=clock.now(),
        next_read_at=clock.now(),
        **more,
    ),
    Discovery: lambda name, **more: Discovery.objects.create(
        address=name, port=3306, status="queued", requested_at=clock.now(), **more
    ),
}
#: Removed when the discovery ends.
NOT_ON_THE_PAGE = {(Discovery, "password")}


@pytest.fixture(autouse=True)
def file(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "encryption.key"
    key = Fernet.generate_key().decode()
    path.write_text(key + "\n")
    path.chmod(0o600)
    settings.ENCRYPTION_KEY_FILE, settings.ENCRYPTION_KEYS, settings.ENCRYPTION_KEYS_IN_FILE = path, [key], True
    monkeypatch.setattr(secret, "key_file", secret._KeyFile())
    monkeypatch.setattr(secrets, "key_file", secret.key_file)
    return path


def text_of(model: type[Model], column: str) -> str:
    return f"secret of {model.__name__}.{column}"


@pytest.fixture
def rows() -> dict[type[Model], Model]:
    columns: dict[type[Model], list[str]] = {}
    for model, column in secret_columns():
        columns.setdefault(model, []).append(column)
    assert set(columns) == set(MAKERS), "a table has a new encrypted column: add a row to MAKERS"
    return {
        model: make(f"of-{model.__name__.lower()}", **{name: text_of(model, name) for name in columns[model]})
        for model, make in MAKERS.items()
    }


def token(model: type[Model], column: str) -> str:
    found: str = (
        model._default_manager.exclude(**{column: ""})
        .annotate(raw=as_stored(column))
        .values_list("raw", flat=True)
        .get()
    )
    return found


def keys(file: Path) -> list[str]:
    return file.read_text().strip().split(",")


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Let enough time pass after a rotation."""
    return lambda: monkeypatch.setattr(secrets, "RETIRES_AFTER_SECONDS", 0)


def test_every_column_is_encrypted_with_the_new_key_alone(rows: Any, file: Path) -> None:
    [old] = keys(file)
    done = secrets.rotate_secrets(actor="olga")
    assert (done.encrypted, done.unreadable) == (len(secret_columns()), ())
    new, kept = keys(file)
    assert kept == old
    for model, column in secret_columns():
        assert Fernet(new).decrypt(token(model, column)).decode() == text_of(model, column)
        assert getattr(model._default_manager.get(pk=rows[model].pk), column) == text_of(model, column)
    detail = AuditEntry.objects.get(action="secrets.rotated").detail
    assert (detail["encrypted"], detail["unreadable"]) == (len(secret_columns()), 0)
    assert not [key for key in (old, new) if key in str(detail)]


def test_second_run_with_the_current_key_changes_nothing(rows: Any, file: Path) -> None:
    secrets.rotate_secrets(actor="olga")
    before = (file.read_text(), {(model, column): token(model, column) for model, column in secret_columns()})
    assert secrets.rotate_secrets(actor="olga", make_key=False).encrypted == 0
    assert (file.read_text(), {(model, column): token(model, column) for model, column in secret_columns()}) == before


def test_unreadable_secret_is_kept_and_named(rows: Any) -> None:
    lost = Fernet(Fernet.generate_key()).encrypt(b"lost").decode()
    Host.objects.filter(pk=rows[Host].pk).update(ssh_private_key=as_token(lost))
    done = secrets.rotate_secrets(actor="olga")
    assert done.encrypted == len(secret_columns()) - 1
    assert done.unreadable == (f"host {rows[Host].pk}: ssh_private_key",)
    assert token(Host, "ssh_private_key") == lost
    [counts] = [one for one in secrets.count_secrets() if one.unreadable]
    assert (counts.table, counts.column, counts.current) == ("host", "ssh_private_key", 0)
    with pytest.raises(CommandError):
        call_command("secrets", "status", stdout=StringIO())


def test_secret_that_a_person_replaces_meanwhile_wins(rows: Any, file: Path) -> None:
    stale = token(Host, "ssh_private_key")
    Host.objects.get(pk=rows[Host].pk).save()
    host = Host.objects.get(pk=rows[Host].pk)
    host.ssh_private_key = "entered by a person"
    host.save()
    assert secrets._encrypt_again(Host, "ssh_private_key", host.pk, stale) == 0
    assert Host.objects.get(pk=host.pk).ssh_private_key == "entered by a person"


class TestRetire:
    def test_older_keys_go_when_nothing_needs_them(self, rows: Any, file: Path, later: Any) -> None:
        secrets.rotate_secrets(actor="olga")
        later()
        assert secrets.retire_keys(actor="olga") == 1
        assert len(keys(file)) == 1
        assert file.stat().st_mode & 0o777 == 0o600
        assert Host.objects.get(pk=rows[Host].pk).ssh_private_key == text_of(Host, "ssh_private_key")
        assert AuditEntry.objects.get(action="secrets.keys_retired").detail == {"keys": 1}
        assert secrets.retire_keys(actor="olga") == 0

    def test_it_is_refused_right_after_a_rotation(self, rows: Any, file: Path) -> None:
        secrets.rotate_secrets(actor="olga")
        with pytest.raises(Refused) as caught:
            secrets.retire_keys(actor="olga")
        assert (caught.value.code, len(keys(file))) == ("secrets.key_in_use", 2)

    @pytest.mark.parametrize(("model", "column"), secret_columns())
    def test_it_is_refused_while_any_column_needs_one(
        self, rows: Any, file: Path, later: Any, model: type[Model], column: str
    ) -> None:
        old = token(model, column)
        secrets.rotate_secrets(actor="olga")
        later()
        model._default_manager.filter(pk=rows[model].pk).update(**{column: as_token(old)})
        with pytest.raises(Refused) as caught:
            secrets.retire_keys(actor="olga")
        assert (caught.value.code, len(keys(file))) == ("secrets.key_in_use", 2)


class TestKeysInOtherProcesses:
    def test_secret_of_a_key_that_came_later_is_read(self, rows: Any, file: Path) -> None:
        new = Fernet.generate_key().decode()
        change_keys(file, lambda known: [new, *known])
        written = Fernet(new).encrypt(b"by another process").decode()
        Host.objects.filter(pk=rows[Host].pk).update(ssh_private_key=as_token(written))
        assert Host.objects.get(pk=rows[Host].pk).ssh_private_key == "by another process"

    def test_secret_is_stored_with_the_newest_key(self, file: Path) -> None:
        new = Fernet.generate_key().decode()
        change_keys(file, lambda known: [new, *known])
        make_host("later", ssh_private_key="x")
        assert Fernet(new).decrypt(token(Host, "ssh_private_key")) == b"x"

    def test_two_rotations_at_once_lose_no_key(self, file: Path) -> None:
        made = [Fernet.generate_key().decode() for _ in range(8)]
        threads = [
            threading.Thread(target=change_keys, args=(file, lambda known, key=key: [key, *known])) for key in made
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert set(made) < set(keys(file))
        assert len(keys(file)) == 9

    def test_keys_of_the_environment_are_not_in_a_file(self, file: Path, settings: Any) -> None:
        settings.ENCRYPTION_KEYS_IN_FILE = False
        before = file.read_text()
        with pytest.raises(Refused) as caught:
            secrets.rotate_secrets(actor="olga")
        assert (caught.value.code, file.read_text()) == ("secrets.key_elsewhere", before)

    def test_first_key_of_the_environment_is_used(self, rows: Any, settings: Any) -> None:
        new = Fernet.generate_key().decode()
        settings.ENCRYPTION_KEYS_IN_FILE = False
        settings.ENCRYPTION_KEYS = [new, *settings.ENCRYPTION_KEYS]
        assert secrets.rotate_secrets(actor="olga", make_key=False).encrypted == len(secret_columns())
        assert Fernet(new).decrypt(token(Host, "ssh_private_key")).decode() == text_of(Host, "ssh_private_key")


def test_command_rotates_and_retires(rows: Any, file: Path, later: Any) -> None:
    out = StringIO()
    call_command("secrets", "rotate", stdout=out)
    assert len(keys(file)) == 2
    with pytest.raises(CommandError):
        call_command("secrets", "retire", stdout=out)
    later()
    call_command("secrets", "retire", stdout=out)
    call_command("secrets", "status", stdout=out)
    assert len(keys(file)) == 1
    assert not [key for key in keys(file) if key in out.getvalue()]
    assert AuditEntry.objects.get(action="secrets.rotated").actor.endswith("(manage.py)")


def test_credentials_page_has_every_column(rows: Any, operator: Client, settings: Any) -> None:
    kinds = {model: model._meta.verbose_name for model in MAKERS}
    for model, column in set(secret_columns()) - NOT_ON_THE_PAGE:
        assert column in SECRETS if model in (Host, Cluster, Instance) else (str(kinds[model]), column) in OTHERS
    wanted = len(secret_columns()) - len(NOT_ON_THE_PAGE)

    def count(state: str) -> int:
        return operator.get("/admin/credentials/").content.decode().count(f'data-secret="{state}"')

    assert count("stored") == wanted
    new = Fernet.generate_key().decode()
    settings.ENCRYPTION_KEYS = [new, *settings.ENCRYPTION_KEYS]
    assert count("old key") == wanted
    settings.ENCRYPTION_KEYS = [new]
    assert count("lost") == wanted
