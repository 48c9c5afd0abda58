"""``manage.py fleet`` and ``manage.py account``."""

import io

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from dbops.models import AuditEntry, Host

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"


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


def test_import_and_export(folder):
    file, copy = folder.path / "fleet.yaml", folder.path / "copy.yaml"
    file.write_text(folder.text)
    out, err = run("fleet", "import", str(file), "--dry-run")
    assert "5 created, 0 changed, 0 unchanged (dry run: nothing was changed)." in out
    assert not Host.objects.exists()
    out, err = run("fleet", "import", str(file))
    assert out.endswith("5 created, 0 changed, 0 unchanged.\n")
    assert err == ""
    assert AuditEntry.objects.first().actor.endswith(" (manage.py)")
    run("fleet", "export", str(copy))
    assert run("fleet", "export")[0] == copy.read_text()
    assert run("fleet", "import", str(copy))[0] == "0 created, 0 changed, 5 unchanged.\n"


def test_errors_name_file_line_and_place(folder):
    file = folder.path / "fleet.yaml"
    file.write_text(folder.text.replace("role: primary", "role: king").replace("sudo", "x").replace("port", "prot"))
    out, err = run("fleet", "import", str(file))
    assert out == ""
    assert f"{file}:18: clusters[0].instances[0].role: 'king' is no role" in err
    assert "CommandError 1: 1 error; nothing was changed." in err


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_file_that_cannot_be_read(folder, content):
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
    types("another good password")
    run("account", "create", "anna", "--password-stdin", "--group", "operator")
    user.refresh_from_db()
    assert user.check_password("another good password")
    assert AuditEntry.objects.count() == 5
    assert PASSWORD not in str(list(AuditEntry.objects.values()))
    assert run("account", "list")[0] == "anna\toperator\n"


def test_an_inactive_account_is_made_active_again(types):
    types(PASSWORD)
    run("account", "create", "anna", "--password-stdin", "--group", "viewer")
    User.objects.update(is_active=False)
    assert run("account", "list")[0] == "anna\tviewer, inactive\n"
    types(PASSWORD)
    assert "active" in run("account", "create", "anna", "--password-stdin", "--group", "viewer")[0]


@pytest.mark.parametrize(
    ("name", "password", "words"),
    [
        ("anna", "short", "password: This password is too short"),
        ("anna", "password1234", "password: This password is too common"),
        ("anna", "", "has no password"),
        ("anna", "two\nlines of it", "more than one line"),
        ("an'na", PASSWORD, "name: Enter a valid username"),
        ("an;na", PASSWORD, "name: Enter a valid username"),
        ("an\nna", PASSWORD, "name: Enter a valid username"),
        ("anna\n", PASSWORD, "name: Enter a valid username"),
        ("", PASSWORD, "name: This field cannot be blank"),
    ],
)
def test_what_an_account_may_not_be(types, name, password, words):
    types(password)
    _, err = run("account", "create", name, "--password-stdin", "--group", "viewer")
    assert words in err
    assert "Nothing was changed" in err
    assert not User.objects.exists()


def test_a_password_is_never_asked_for_where_nobody_can_answer(types):
    types(PASSWORD)
    assert "add --password-stdin" in run("account", "create", "anna", "--group", "viewer")[1]
