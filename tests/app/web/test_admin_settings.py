"""The page of settings: every documented variable, no secret, and what a report of a fault needs."""

import re
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from dbops import __version__, migrations
from dbops.queries.admin import configuration

pytestmark = pytest.mark.django_db

DOCUMENT = (Path(__file__).parents[3] / "docs" / "reference" / "configuration.md").read_text()


@pytest.fixture(autouse=True)
def _redis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbops.web.views.admin.redis_problem", lambda: None)


def found(name: str) -> configuration.Setting:
    return next(item for item in configuration.in_effect() if item.name == name)


def test_settings_page_needs_a_superuser(viewer: Client) -> None:
    assert viewer.get("/admin/settings/").status_code == 403


def test_settings_page_shows_the_address_that_the_audit_log_gets(operator: Client) -> None:
    text = operator.get("/admin/settings/", REMOTE_ADDR="203.0.113.9").content.decode()
    assert '<code id="own-address">203.0.113.9</code>' in text


def test_settings_page_shows_exactly_the_documented_variables() -> None:
    rows = [line.split("|")[1] for line in DOCUMENT.splitlines() if line.startswith("| `DBOPS_")]
    documented = [name for row in rows for name in re.findall(r"`(DBOPS_[A-Z_]+)`", row)]
    assert sorted(item.name for item in configuration.in_effect()) == sorted(documented)


def test_settings_page_shows_documented_defaults() -> None:
    shown = {item.name: item for item in configuration.in_effect()}
    checked = 0
    for line in DOCUMENT.splitlines():
        match = re.match(r"\| `(DBOPS_[A-Z_]+_SECONDS)` \| (\d+) \|", line)
        if match and shown[match[1]].origin == configuration.DEFAULT:
            assert shown[match[1]].value == match[2], match[1]
            checked += 1
    assert checked > 10


def test_settings_page_shows_the_origin_of_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DBOPS_WEB_PORT", raising=False)
    assert (found("DBOPS_WEB_PORT").value, found("DBOPS_WEB_PORT").origin) == ("8000", "default")
    monkeypatch.setenv("DBOPS_WEB_PORT", "9000")
    assert (found("DBOPS_WEB_PORT").value, found("DBOPS_WEB_PORT").origin) == ("9000", "environment")


def test_settings_page_shows_no_secret(operator: Client, monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    monkeypatch.setenv("DBOPS_DATABASE_URL", "postgresql://dbops:pg-secret@db.example/dbops?sslpassword=pem-secret")
    settings.REDIS_URL = "redis://:redis-secret@redis.example:6379/0"
    text = operator.get("/admin/settings/").content.decode()
    assert "db.example" in text
    assert "redis.example" in text
    for secret in ("pg-secret", "pem-secret", "redis-secret", django_settings.SECRET_KEY):
        assert secret not in text
    assert not [key for key in django_settings.ENCRYPTION_KEYS if key in text]
    assert found("DBOPS_SECRET_KEY").value == found("DBOPS_ENCRYPTION_KEY").value == "set"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:////var/lib/dbops/dbops.sqlite3", "sqlite:////var/lib/dbops/dbops.sqlite3"),
        ("mysql://u:p%40ss@h:3306/d", "mysql://u:***@h:3306/d"),
        ("postgresql://u@h/d?sslmode=require&ssl_key=x", "postgresql://u@h/d?sslmode=require&ssl_key=***"),
        ("redis://:x@h:1/0", "redis://:***@h:1/0"),
        ("", ""),
    ],
)
def test_settings_page_removes_passwords_from_urls(url: str, shown: str) -> None:
    assert configuration.without_password(url) == shown


def test_settings_page_versions_can_be_copied(
    operator: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(7):
        answer = operator.get("/admin/settings/")
    about, text = answer.context["about"], answer.content.decode()
    newest = max(path.stem for path in Path(migrations.__path__[0]).glob("0*.py"))
    assert (about["dbops"], about["Schema"]) == (__version__, newest)
    assert about["Redis"] == "takes writes"
    assert all(f"{name}: {value}\n" in text for name, value in about.items())
    assert "data-copy" in text


def test_settings_page_names_missing_migrations(monkeypatch: pytest.MonkeyPatch) -> None:
    class Behind:
        applied_migrations = {("dbops", "0010_samples"): None}
        disk_migrations = {("dbops", "0010_samples"): None, ("dbops", "0011_connection_tests"): None}

        def __init__(self, connection: Any) -> None:
            """It needs no query."""

    monkeypatch.setattr(configuration, "MigrationLoader", Behind)
    schema = configuration.versions()["Schema"]
    assert schema.startswith("0010_samples (1 ")
    assert "script/run migrate" in schema
