"""Hosts that their certificate proves: in the fleet file, in the browser, in the audit log, and what dbops connects with."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from dbops.engine.errors import Refused
from dbops.engine.hosts.host_keys import HostAuthorities
from dbops.engine.hosts.ssh import known_host
from dbops.loaders.members import member_of
from dbops.loaders.ssh_addresses import jump_of, ssh_address_of
from dbops.models import AuditEntry, Host, Instance
from dbops.operations.fleet import FleetFileErrors, export_fleet
from dbops.worker.connections import endpoint_of, open_shell
from tests.app.factories import make_host
from tests.app.fleetfile.builders import FleetFolder, host_key, private_key
from tests.app.fleetfile.test_forms import edit_url, errors, shown
from tests.fakes import FakeJobs

pytestmark = pytest.mark.django_db
NAME = "db-1.example"


def text(folder: FleetFolder, name: str = NAME, second: str = "") -> str:
    given = folder.text.replace("      host_key:", f'      certificate_name: "{name}"\n      host_key:')
    return given.replace("{address: 192.0.2.2, ", f'{{address: 192.0.2.2, certificate_name: "{second}", ')


@pytest.fixture
def cas(tmp_path: Path, settings: Any) -> HostAuthorities:
    file = tmp_path / "cas"
    file.write_text(f"# CAs\n{host_key(7)} a comment\n@revoked {host_key(8)}\n")
    settings.SSH_HOST_CA_FILE = str(file)
    return HostAuthorities((host_key(7),), (host_key(8),))


def made(name: str, **values: Any) -> Host:
    return make_host(name, ssh_private_key=private_key(), **values)


class TestFile:
    def test_import_sets_it_export_repeats_it_and_the_audit_log_has_it(self, folder: FleetFolder) -> None:
        folder.load()
        folder.load(text(folder))
        assert Host.objects.get(name="db-1").certificate_name == NAME
        detail = AuditEntry.objects.get(action="host.changed", subject="db-1").detail
        assert set(detail) - {"via"} == {"certificate_name"}
        assert folder.load(export_fleet()).count("changed") == 0
        report = folder.load()
        assert [(one.name, one.fields) for one in report.items if one.outcome == "changed"] == [
            ("db-1", ["certificate_name"])
        ]
        assert Host.objects.get(name="db-1").certificate_name == ""

    @pytest.mark.parametrize("name", ["*.example", "db-?", "!db-1", "db-1,db-2", "DB-1", "db-1 db-2", "-x", "[::1]"])
    def test_what_is_not_one_name(self, folder: FleetFolder, name: str) -> None:
        with pytest.raises(FleetFileErrors) as caught:
            folder.load(text(folder, name))
        assert [error.path.rpartition(".")[2] for error in caught.value.errors] == ["certificate_name"]

    def test_two_hosts_with_one_name_could_pass_for_each_other(self, folder: FleetFolder, operator: Client) -> None:
        with pytest.raises(FleetFileErrors) as caught:
            folder.load(text(folder, second=NAME))
        assert [error.path.rpartition(".")[2] for error in caught.value.errors] == ["certificate_name"]
        folder.load(text(folder))
        url = edit_url("host", "db-2")
        answer = operator.post(url, shown(operator, url) | {"certificate_name": NAME})
        assert set(errors(answer)) == {"certificate_name"}


class TestBrowser:
    def test_the_form_sets_and_unsets_it(self, folder: FleetFolder, operator: Client) -> None:
        folder.load()
        url = edit_url("host", "db-1")
        values = shown(operator, url)
        assert set(errors(operator.post(url, values | {"certificate_name": "*"}))) == {"certificate_name"}
        for name in (NAME, ""):
            operator.post(url, shown(operator, url) | {"certificate_name": name})
            assert Host.objects.get(name="db-1").certificate_name == name

    def test_the_pages_show_it(self, folder: FleetFolder, operator: Client) -> None:
        mark = f'data-certificate-name="{NAME}"'.encode()
        folder.load()
        for name, is_shown in (("", False), (NAME, True)):
            Host.objects.filter(name="db-1").update(certificate_name=name)
            for url in ("/inventory/", "/inventory/host/db-1/key/"):
                assert (mark in operator.get(url).content) is is_shown

    def test_the_pages_show_its_end(self, operator: Client) -> None:
        since = datetime(2020, 1, 2, tzinfo=UTC)
        host, mark = make_host("db-1", certificate_name=NAME), b'data-certificate-until="2099-'
        for until in (None, since.replace(year=2099)):
            Host.objects.filter(pk=host.pk).update(certificate_since=since, certificate_until=until)
            for url in ("/inventory/", "/inventory/host/db-1/key/"):
                assert (mark in operator.get(url).content) is bool(until)

    @pytest.mark.parametrize(
        "changed", [{"certificate_name": "db-2.example"}, {"address": "192.0.2.77"}, {"port": "2222"}]
    )
    def test_another_host_has_no_known_end(
        self, folder: FleetFolder, operator: Client, changed: dict[str, str]
    ) -> None:
        folder.load()
        known = {
            "certificate_since": datetime(2020, 1, 2, tzinfo=UTC),
            "certificate_until": datetime(2099, 1, 2, tzinfo=UTC),
        }
        Host.objects.filter(name="db-1").update(**known)
        url = edit_url("host", "db-1")
        operator.post(url, shown(operator, url) | {"work_dir": "/srv/other"})
        assert Host.objects.filter(name="db-1", work_dir="/srv/other", **known).exists()
        form = shown(operator, url)
        names = {name: next(one for one in form if one.endswith(name)) for name in changed}
        answer = operator.post(url, form | {names[name]: value for name, value in changed.items()})
        assert answer.status_code == 302, errors(answer)
        assert Host.objects.filter(name="db-1", certificate_since=None, certificate_until=None).exists()

    @pytest.mark.parametrize("file", ["", "/nowhere"])
    def test_without_cas_no_key_is_read(self, operator: Client, settings: Any, file: str) -> None:
        settings.SSH_HOST_CA_FILE = file
        make_host("db-1", certificate_name=NAME)
        answer = operator.post("/inventory/host/db-1/key/", {"action": "read"})
        assert (answer.status_code, answer.context["problem"].code) == (409, "ssh.host_ca_file")


class TestConnections:
    def test_hosts_and_jump_hosts_have_their_proof(self, cas: HostAuthorities) -> None:
        jump = made("jump", certificate_name="jump.example", host_key=host_key(1))
        host = made("db-1", certificate_name=NAME, host_key=host_key(2), jump_host=jump)
        plain = made("db-2", host_key=host_key(3), jump_host=jump)
        proofs = [
            one.proof and (one.proof.host.certificate_name, one.proof.authorities)
            for one in map(ssh_address_of, (host, plain))
        ]  # type: ignore[union-attr]
        assert proofs == [(NAME, cas), None]
        way = jump_of(plain)
        assert way is not None
        assert (way.proof.host.certificate_name, way.proof.authorities) == ("jump.example", cas)  # type: ignore[union-attr]

    def test_without_cas_nothing_falls_back_to_the_pinned_key(self, settings: Any) -> None:
        jump = made("jump", certificate_name="jump.example", host_key=host_key(1))
        for host in (jump, made("db-2", host_key=host_key(3), jump_host=jump)):
            with pytest.raises(Refused) as caught:
                open_shell(host)
            assert caught.value.code == "ssh.host_ca_file"

    def test_other_hosts_know_it_by_its_name_and_the_cas(self, cas: HostAuthorities) -> None:
        host = made("db-1", certificate_name=NAME, host_key=host_key(2))
        end = endpoint_of(host, "", FakeJobs())
        assert end.authorities.known_hosts(end.certificate_name).splitlines() == [
            f"@revoked * {host_key(8)}",
            f"@cert-authority {NAME} {host_key(7)}",
        ]
        plain = made("db-2", host_key=host_key(3))
        assert endpoint_of(plain, "", FakeJobs()).authorities == HostAuthorities()
        assert known_host("db-2", 22, host_key(3)) == f"db-2 {host_key(3)}"

    def test_a_plan_names_it_and_another_name_is_another_plan(self, folder: FleetFolder) -> None:
        folder.load(text(folder))
        instance = Instance.objects.select_related("host", "cluster", "state").get(name="shop-1")
        party = member_of(instance).party()
        instance.host.certificate_name = ""
        pinned = member_of(instance).party()
        assert (party.certificate_name, pinned.certificate_name) == (NAME, "")
        assert party.host_key_fingerprint != pinned.host_key_fingerprint
