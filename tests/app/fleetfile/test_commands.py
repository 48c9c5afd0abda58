"""``manage.py fleet`` and ``manage.py account``."""

import io
import re

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from dbops.models import AuditEntry, Host
from tests.said import numbers

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"
OTHER_PASSWORD = "another good password"


def run(*arguments: str) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command(*arguments, stdout=out, stderr=err)
    except CommandError as error:
        err.write(f"CommandError {error.returncode}: {error}")
    return out.getvalue(), err.getvalue()


@pytest.fixture
def types(monkeypatch):
    """Type this into standard input."""
    return lambda text: monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_fleet_import_and_export_work(folder):
    file, copy = folder.path / "fleet.yaml", folder.path / "copy.yaml"
    file.write_text(folder.text)
    out, err = run("fleet", "import", str(file), "--dry-run")
    assert numbers(out.splitlines()[-1]) == [5, 0, 0]
    assert not Host.objects.exists()
    out, err = run("fleet", "import", str(file))
    assert numbers(out.splitlines()[-1]) == [5, 0, 0]
    assert err == ""
    assert AuditEntry.objects.first().actor.endswith(" (manage.py)")
    run("fleet", "export", str(copy))
    assert run("fleet", "export")[0] == copy.read_text()
    [found] = run("fleet", "import", str(copy))[0].splitlines()
    assert numbers(found) == [0, 0, 5]


def test_fleet_import_reads_standard_input(folder, types, monkeypatch):
    """A container sees no file of the machine that it runs on."""
    monkeypatch.chdir(folder.path)
    types(folder.text)
    out, err = run("fleet", "import", "-")
    assert (numbers(out.splitlines()[-1]), err) == ([5, 0, 0], "")
    types(folder.text.replace("role: primary", "role: king"))
    assert run("fleet", "import", "-")[1].startswith("-:18: ")


def test_fleet_command_errors_name_file_line_and_place(folder):
    file = folder.path / "fleet.yaml"
    file.write_text(folder.text.replace("role: primary", "role: king").replace("sudo", "x").replace("port", "prot"))
    out, err = run("fleet", "import", str(file))
    assert out == ""
    first, last = err.splitlines()[0], err.splitlines()[-1]
    assert f"{file}:18: clusters[0].instances[0].role: 'king'" in first
    assert "CommandError 1: 1 " in last
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_fleet_import_fails_on_an_unreadable_file(folder, content):
    file = folder.path / "fleet.yaml"
    if content:
        file.write_bytes(content)
    assert "CommandError 1: " in run("fleet", "import", str(file))[1]


def test_account_create_is_idempotent_and_follows_what_is_given(types):
    for arguments, said in (
        (["--group", "viewer"], "anna: created (viewer)"),
        (["--group", "viewer"], "anna: unchanged (viewer)"),
        (["--group", "operator"], "anna: group (operator)"),
        (["--group", "operator", "--superuser"], "anna: superuser (operator)"),
        (["--group", "operator"], "anna: superuser (operator)"),
    ):
        types(PASSWORD + "\n")
        out, err = run("account", "create", "anna", "--password-stdin", *arguments)
        assert (out.strip(), err) == (said, "")
    user = User.objects.get()
    assert user.check_password(PASSWORD)
    assert not user.is_superuser
    assert [group.name for group in user.groups.all()] == ["operator"]
    types(OTHER_PASSWORD)
    run("account", "create", "anna", "--password-stdin", "--group", "operator")
    user.refresh_from_db()
    assert user.check_password(OTHER_PASSWORD)
    assert AuditEntry.objects.count() == 5
    assert PASSWORD not in str(list(AuditEntry.objects.values()))
    assert run("account", "list")[0] == "anna\toperator\n"


def test_account_create_activates_an_inactive_account(types):
    types(PASSWORD)
    run("account", "create", "anna", "--password-stdin", "--group", "viewer")
    User.objects.update(is_active=False)
    assert re.fullmatch(r"anna\tviewer\b.+\n", run("account", "list")[0]), "more is said than of an active one"
    types(PASSWORD)
    assert "active" in run("account", "create", "anna", "--password-stdin", "--group", "viewer")[0]


@pytest.mark.parametrize(
    ("name", "password", "field"),
    [
        ("anna", "short", "password: "),
        ("anna", "password1234", "password: "),
        ("anna", "", "password"),
        ("anna", "two\nlines of it", ""),
        ("an'na", PASSWORD, "name: "),
        ("an;na", PASSWORD, "name: "),
        ("an\nna", PASSWORD, "name: "),
        ("anna\n", PASSWORD, "name: "),
        ("", PASSWORD, "name: "),
    ],
)
def test_account_create_refuses_bad_values(types, name, password, field):
    types(password)
    _, err = run("account", "create", name, "--password-stdin", "--group", "viewer")
    assert err.startswith("CommandError ")
    assert field in err
    assert not User.objects.exists()
    assert not AuditEntry.objects.exists()


def test_account_create_needs_password_stdin_without_a_terminal(types):
    types(PASSWORD)
    assert "--password-stdin" in run("account", "create", "anna", "--group", "viewer")[1]
