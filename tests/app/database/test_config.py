"""What the database itself must do, on whichever one these tests run."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import DataError, IntegrityError, connection, transaction

from dbops.database.config import database_settings
from dbops.engine.facts.instance import to_record
from dbops.models import ExecutedCommand, Host, Instance, InstanceState, Rebuild, RebuildEvent
from dbops.worker import prober
from tests.app import factories, rows


def test_database_url_options_override_defaults() -> None:
    assert database_settings("sqlite:////x?timeout=5", wait_seconds=20)["OPTIONS"]["transaction_mode"] == "IMMEDIATE"
    options = database_settings("postgresql://u@h/d?sslmode=require&connect_timeout=3", wait_seconds=20)["OPTIONS"]
    assert (options["sslmode"], options["connect_timeout"]) == ("require", 3)
    assert "lock_timeout=20s" in options["options"]
    mariadb = database_settings("mysql://u@h/d", wait_seconds=20)["OPTIONS"]
    assert (mariadb["isolation_level"], mariadb["charset"]) == ("read committed", "utf8mb4")


def test_database_password_is_that_of_the_url_else_the_given_one() -> None:
    urls = {"postgresql://u@h/d": "given", "mysql://u:own@h/d": "own", "sqlite:////x": ""}
    for url, expected in urls.items():
        assert database_settings(url, wait_seconds=20, password="given")["PASSWORD"] == expected


@pytest.mark.parametrize("url", ["oracle://u@h/d", "mysql-connector://u@h/d"])
def test_database_url_refuses_other_kinds(url: str) -> None:
    with pytest.raises(ValueError, match=r"sqlite.*postgresql.*mysql"):
        database_settings(url, wait_seconds=20)


@pytest.mark.django_db
def test_database_keeps_microseconds() -> None:
    now = datetime(2026, 11, 21, 1, 2, 3, 456789, tzinfo=UTC)
    _, backup, replica = factories.make_trio()
    rebuild = factories.make_rebuild(target=replica, source=backup)
    Rebuild.objects.update(lease_until=now)
    assert Rebuild.objects.get().lease_until == now
    assert Rebuild.objects.filter(lease_until__lt=now + timedelta(microseconds=1)).exists()
    assert not Rebuild.objects.filter(pk=rebuild.pk, lease_until__lt=now).exists()


@pytest.mark.django_db
def test_database_keeps_every_letter_and_case() -> None:
    factories.make_host("db-1", ssh_address="a")
    factories.make_host("DB-1", ssh_address="b")
    assert Host.objects.get(name="db-1").ssh_address == "a"
    _, backup, replica = factories.make_trio()
    event = factories.make_event(factories.make_rebuild(target=replica, source=backup), "Köln 数据库 🐬 \\ ' % \"")
    assert RebuildEvent.objects.get(pk=event.pk).text == "Köln 数据库 🐬 \\ ' % \""


@pytest.mark.django_db
def test_command_rows_are_unique_by_key_and_limited_in_length() -> None:
    _, backup, replica = factories.make_trio()
    rebuild = factories.make_rebuild(target=replica, source=backup)
    now = datetime.now(UTC)
    for text in ("first", "second"):
        ExecutedCommand.objects.bulk_create(
            [ExecutedCommand(rebuild=rebuild, key="key", place="db-1", text=text, started_at=now)],
            ignore_conflicts=True,
        )
    assert ExecutedCommand.objects.get().text == "first"
    if connection.vendor == "sqlite":
        return  # it keeps what is too long
    with pytest.raises(DataError), transaction.atomic():
        ExecutedCommand.objects.create(rebuild=rebuild, key="k" * 81, place="db-1", text="", started_at=now)


@pytest.mark.django_db
def test_cluster_has_one_primary_and_a_refusal_keeps_the_transaction() -> None:
    primary, backup, _ = factories.make_trio()
    with pytest.raises(IntegrityError), transaction.atomic():
        Instance.objects.filter(pk=backup.pk).update(role="primary")
    Instance.objects.filter(pk=primary.pk).update(role="replica")
    Instance.objects.filter(pk=backup.pk).update(role="primary")
    assert Instance.objects.get(primary_slot=primary.cluster_id).pk == backup.pk


@pytest.mark.django_db
def test_probe_stores_facts_when_a_host_sends_nul(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = rows.make_fleet()
    before = fleet["replica-1"].state.observed_at

    def probe(instance: Instance, **_: Any) -> Any:
        facts = rows.facts_of(instance.name, datetime.now(UTC) + timedelta(hours=1))
        object.__setattr__(facts.host, "hostname", f"{instance.name}\0")
        return facts

    monkeypatch.setattr(prober, "read", probe)
    assert prober.probe_all(list(Instance.objects.select_related("host", "cluster", "state"))) == 3
    state = InstanceState.objects.get(instance=fleet["replica-1"])
    assert state.observed_at is not None
    assert before is not None
    assert state.observed_at > before
    assert state.record["host"]["hostname"] == "replica-1\N{REPLACEMENT CHARACTER}"
    assert to_record(state.facts()) == state.record
