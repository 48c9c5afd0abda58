"""In the browser, key files are named in one directory only; the answers tell nothing of other files."""

import pytest
from django.urls import reverse

from dbops.models import Host
from dbops.operations.fleet import FleetFileErrors
from tests.app.fleetfile.builders import private_key

pytestmark = pytest.mark.django_db


@pytest.fixture
def elsewhere(settings, folder):
    """Let people name files in ``keys`` only. Return a key, a file, a link to the key, and a name without a file."""
    (folder.path / "keys").mkdir()
    settings.KEY_DIRECTORY = folder.path / "keys"
    (folder.path / "text").write_text("no key")
    (folder.path / "keys" / "link").symlink_to(folder.key_file)
    keys = settings.KEY_DIRECTORY
    return [folder.key_file, folder.path / "text", keys / "link", keys / ".." / "id_ed25519", "/no/such", keys]


def browser_errors(folder, path):
    text = folder.text.replace(str(folder.key_file), str(path))
    with pytest.raises(FleetFileErrors) as caught:
        folder.load(text, base_dir=None)
    return [(error.line, error.path, error.text) for error in caught.value.errors]


def test_browser_import_answers_the_same_for_every_file_elsewhere(folder, elsewhere):
    found = [browser_errors(folder, path) for path in elsewhere]
    assert {path for errors in found for _, path, _ in errors} == {f"hosts[{number}].ssh.key_file" for number in (0, 1)}
    assert all(errors == found[0] for errors in found)
    assert not Host.objects.exists()


def test_browser_import_accepts_a_file_in_the_directory(folder, elsewhere, settings):
    (settings.KEY_DIRECTORY / "id").write_text(private_key())
    folder.load(folder.text.replace(str(folder.key_file), str(settings.KEY_DIRECTORY / "id")), base_dir=None)
    assert Host.objects.filter(ssh_key_file=settings.KEY_DIRECTORY / "id").count() == 2


def test_browser_import_keeps_the_file_that_a_host_has(folder, elsewhere):
    folder.load()
    folder.load(base_dir=None)
    assert Host.objects.filter(ssh_key_file=folder.key_file).count() == 2


def test_host_form_answers_the_same_for_every_file_elsewhere(folder, elsewhere, operator):
    values = {
        "name": "db-9",
        "ssh_address": "192.0.2.9",
        "ssh_port": "22",
        "ssh_user": "root",
        "work_dir": "/var/lib/dbops",
    }
    url = reverse("inventory-add", args=["host"])
    answers = [operator.post(url, values | {"ssh_key_file": str(path)}) for path in elsewhere]
    assert {answer.status_code for answer in answers} == {422}
    found = {tuple(answer.context["form"].errors["ssh_key_file"]) for answer in answers}
    assert len(found) == 1
    assert answers[0].context["form"].has_error("ssh_key_file", "outside")
