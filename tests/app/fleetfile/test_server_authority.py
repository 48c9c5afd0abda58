"""The authority of a cluster's server certificates: in the fleet file, in the browser, and on connections."""

from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from dbops.models import AuditEntry, Cluster, Instance
from dbops.operations.fleet import FleetFileErrors, export_fleet
from dbops.worker.connections import connect_to, open_database
from tests.drivers.conftest import certificate

from .test_forms import errors, shown

pytestmark = pytest.mark.django_db
ADDRESS = "clusters[0].tls_ca"


@pytest.fixture
def authority(tmp_path: Path) -> str:
    return certificate(tmp_path)["cert"].read_text()


def in_file(text: str) -> str:
    """Return the line of a fleet file with a value of several lines."""
    lines = "".join(f"      {line}\n" for line in text.splitlines())
    return f"    tls_ca: |\n{lines}"


def test_authority_of_a_file_is_stored_exported_and_used(folder: Any, authority: str) -> None:
    folder.load(folder.with_change("  - name: shop\n", f"  - name: shop\n{in_file(authority)}"))
    cluster = Cluster.objects.get()
    assert cluster.tls_ca == authority
    assert open_database(Instance.objects.get(name="shop-2")).address.tls_ca == authority
    gone = connect_to("192.0.2.99", 3306, cluster, read_timeout_seconds=1)
    assert gone.address.tls_ca == authority
    assert authority.splitlines()[1] in export_fleet()


@pytest.mark.parametrize("text", ["nothing", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "é"])
def test_text_without_a_certificate_is_refused(folder: Any, operator: Client, text: str) -> None:
    with pytest.raises(FleetFileErrors):
        folder.load(folder.with_change("  - name: shop\n", f"  - name: shop\n{in_file(text)}"))
    folder.load()
    url = reverse("inventory-edit", args=["cluster", "shop"])
    answer = operator.post(url, shown(operator, url) | {"tls_ca": text})
    assert (answer.status_code, set(errors(answer))) == (422, {"tls_ca"})
    assert Cluster.objects.get().tls_ca == ""


def test_authority_is_entered_and_removed_in_the_browser(folder: Any, operator: Client, authority: str) -> None:
    folder.load()
    url = reverse("inventory-edit", args=["cluster", "shop"])
    assert operator.post(url, shown(operator, url) | {"tls_ca": authority.replace("\n", "\r\n")}).status_code == 302
    assert Cluster.objects.get().tls_ca.split() == authority.split()
    assert operator.post(url, shown(operator, url)).status_code == 302
    assert AuditEntry.objects.filter(action="cluster.changed").count() == 1, "an unchanged form changes nothing"
    assert operator.post(url, shown(operator, url) | {"tls_ca": ""}).status_code == 302
    assert open_database(Instance.objects.get(name="shop-2")).address.tls_ca == ""
