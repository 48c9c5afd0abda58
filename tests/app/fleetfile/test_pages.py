"""Who may open the inventory; removing, importing, exporting, and accepting host keys."""

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse
from django.utils import translation
from django.utils.html import conditional_escape

from dbops.engine.errors import Refused, Unreachable
from dbops.engine.hosts.host_keys import parse_host_key
from dbops.fleetfile import sshkeys
from dbops.models import AuditEntry, Cluster, Host, Instance
from dbops.operations.fleet import FleetFileErrors, accept_host_key, delete, save_host
from dbops.web.templatetags.phrases import translated
from tests.app.factories import make_rebuild
from tests.app.fleetfile.builders import SECRETS, host_key

pytestmark = pytest.mark.django_db

KEY_URL = "/inventory/host/db-2/key/"
ACCEPT, REPLACE = 'name="action" value="accept"', 'name="replace"'
WRITING = [
    "/inventory/add/host/",
    "/inventory/add/cluster/",
    "/inventory/add/instance/",
    "/inventory/host/db-1/",
    "/inventory/cluster/shop/",
    "/inventory/instance/shop-1/",
    "/inventory/instance/shop-1/remove/",
    "/inventory/import/",
    "/inventory/export/",
    KEY_URL,
    "/inventory/host/db-1/sudo/",
]


@pytest.fixture
def fleet(folder, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("dbops.operations.fleet.record_item", lambda *_, **__: None)
        folder.load()
    return folder


@pytest.fixture
def shows(monkeypatch):
    """Let every host show this key, or raise this error."""

    def show(answer):
        def fetch(address, port, timeout_seconds, jump):
            if isinstance(answer, Exception):
                raise answer
            return parse_host_key(answer)

        monkeypatch.setattr(sshkeys, "fetch_host_key", fetch)

    return show


@pytest.mark.parametrize("url", WRITING)
def test_inventory_pages_need_an_operator_for_writing(fleet, operator, viewer, stranger, client, url):
    assert operator.get(url).status_code == 200
    for other in (viewer, stranger):
        assert other.get(url).status_code == 403
        assert other.post(url, {"action": "read"}).status_code in (403, 405)
    assert client.get(url).status_code == 302
    assert client.get(url)["Location"].startswith(reverse("login"))


def test_inventory_list_has_no_links_for_viewers(fleet, viewer, operator, stranger):
    text = viewer.get("/inventory/").content.decode()
    assert "shop-1" in text
    assert "SHA256:" in text
    assert "/inventory/host/" not in text
    assert "/inventory/host/db-1/" in operator.get("/inventory/").content.decode()
    assert stranger.get("/inventory/").status_code == 403


@pytest.mark.parametrize("url", ["/inventory/add/user/", "/inventory/host/none/", "/inventory/host/none/key/"])
def test_inventory_answers_404_for_missing_objects(operator, url):
    assert operator.get(url).status_code == 404


def test_inventory_pages_have_no_inline_script_or_style(fleet, operator):
    for url in ["/inventory/", *WRITING]:
        text = operator.get(url).content.decode()
        assert " style=" not in text
        assert "<style" not in text
        assert "hx-on" not in text


def test_inventory_operations_check_permissions(fleet, victor):
    host = Host.objects.get(name="db-1")
    for call in (
        lambda: save_host(actor=victor, host=host, values={"name": "x"}),
        lambda: delete(actor=victor, row=host),
        lambda: accept_host_key(actor=victor, host=host, host_key=host_key()),
    ):
        with pytest.raises(Refused, match="access.denied"):
            call()


def test_remove_asks_for_confirmation_and_refuses_what_is_in_use(fleet, operator, olga):
    page = operator.get("/inventory/host/db-1/remove/")
    assert page.status_code == 200
    assert Host.objects.filter(name="db-1").exists()
    response = operator.post("/inventory/host/db-1/remove/")
    assert response.status_code == 409
    assert b"instance shop-1" in response.content
    one, two = Instance.objects.order_by("name")
    rebuild = make_rebuild(target=two, source=one, requested_by=olga)
    assert f"rebuild {rebuild.pk}".encode() in operator.post("/inventory/instance/shop-1/remove/").content
    rebuild.delete()
    for url in ("instance/shop-1", "instance/shop-2", "host/db-1", "cluster/shop"):
        assert operator.post(f"/inventory/{url}/remove/").status_code == 302
    assert (Host.objects.count(), Cluster.objects.count(), Instance.objects.count()) == (1, 0, 0)
    assert list(AuditEntry.objects.order_by("pk").values_list("action", "subject"))[0] == ("instance.removed", "shop-1")


def test_import_page_shows_errors_or_a_report(folder, operator):
    text = folder.text.replace("role: primary", "role: king")
    response = operator.post("/inventory/import/", {"text": text, "action": "import"})
    assert response.status_code == 422
    assert "clusters[0].instances[0].role" in response.content.decode()
    assert '<td data-label="Line" class="number">18</td>' in response.content.decode()
    assert not any(secret in response.content.decode() for secret in SECRETS)
    assert not Host.objects.exists()
    response = operator.post("/inventory/import/", {"text": folder.text, "action": "check"})
    assert response.status_code == 200
    assert not Host.objects.exists()
    upload = SimpleUploadedFile("fleet.yaml", folder.text.encode())
    response = operator.post("/inventory/import/", {"file": upload, "action": "import"})
    assert b"5 created, 0 changed, 0 unchanged" in response.content
    assert not any(secret in response.content.decode() for secret in SECRETS)
    assert set(AuditEntry.objects.values_list("actor", flat=True)) == {"olga"}


def test_import_page_shows_errors_in_the_language_of_the_reader(folder, operator):
    text = (
        folder.text.replace("role: primary", "role: king")
        .replace("version: 1", "version: 2")
        .replace("192.0.2.2", "a b")
    )
    operator.cookies["dbops_language"] = "ja"
    with translation.override("ja"):
        response = operator.post("/inventory/import/", {"text": text, "action": "import"})
    page, errors = response.content.decode(), response.context["errors"]
    with pytest.raises(FleetFileErrors) as english:
        folder.load(text)
    assert [error.line for error in errors] == [1, 9, 18]
    for error, same in zip(errors, english.value.errors, strict=True):
        with translation.override("ja"):
            shown = translated(error.text)
        assert conditional_escape(shown) in page
        assert shown != same.text
        assert conditional_escape(same.text) not in page


@pytest.mark.parametrize("given", [{}, {"text": "  "}, {"file": SimpleUploadedFile("f", b"\xff\xfe\x00")}])
def test_import_page_refuses_empty_text(operator, given):
    assert operator.post("/inventory/import/", given).status_code == 422


def test_export_page_is_a_download(fleet, operator):
    response = operator.get("/inventory/export/")
    assert response["Content-Disposition"] == 'attachment; filename="fleet.yaml"'
    assert (
        operator.post("/inventory/import/", {"text": response.content.decode(), "action": "import"}).status_code == 200
    )


def test_first_host_key_is_shown_and_accepted(fleet, operator, shows):
    shows(host_key(2))
    text = operator.post(KEY_URL, {"action": "read"}).content.decode()
    assert parse_host_key(host_key(2)).fingerprint in text
    assert (ACCEPT in text, REPLACE in text) == (True, False)
    assert Host.objects.get(name="db-2").host_key == ""
    operator.post(KEY_URL, {"action": "accept", "host_key": host_key(2), "shown": ""})
    host = Host.objects.get(name="db-2")
    assert (host.host_key, host.host_key_accepted_by) == (host_key(2), "olga")
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.detail["after"]) == ("host.key_accepted", parse_host_key(host_key(2)).fingerprint)
    text = operator.post(KEY_URL, {"action": "read"}).content.decode()
    assert ("data-same-key" in text, ACCEPT in text) == (True, False)


def test_changed_host_key_needs_confirmation_with_a_reason(fleet, operator, shows, olga):
    old, new = (parse_host_key(host_key(number)).fingerprint for number in (2, 3))
    accept_host_key(actor=olga, host=Host.objects.get(name="db-2"), host_key=host_key(2))
    shows(host_key(3))
    text = operator.post(KEY_URL, {"action": "read"}).content.decode()
    assert old in text
    assert new in text
    assert (ACCEPT in text, REPLACE in text) == (True, True)
    given = {"action": "accept", "host_key": host_key(3), "shown": old}
    assert operator.post(KEY_URL, given).status_code == 409
    assert operator.post(KEY_URL, given | {"shown": new, "replace": "yes"}).status_code == 409
    assert Host.objects.get(name="db-2").host_key == host_key(2)
    assert operator.post(KEY_URL, given | {"replace": "yes"}).status_code == 302
    assert Host.objects.get(name="db-2").host_key == host_key(3)


def test_host_key_page_refuses_silent_hosts_and_bad_keys(fleet, operator, shows):
    shows(Unreachable("ssh.unreachable", "Connecting to db-2", cause="no route"))
    response = operator.post(KEY_URL, {"action": "read"})
    assert response.status_code == 409
    assert b"no route" in response.content
    assert operator.post(KEY_URL, {"action": "accept", "host_key": "x"}).status_code == 409
    assert Host.objects.get(name="db-2").host_key == ""


def test_host_key_page_connects_only_on_request(fleet, operator, shows):
    shows(AssertionError("a page must not open SSH"))
    assert operator.get(KEY_URL).status_code == 200
