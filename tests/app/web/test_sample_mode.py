"""What a process does otherwise that shows the sample: it marks, and it refuses."""

from typing import Any

import pytest
from django.test import Client
from django.urls import URLResolver, get_resolver

from dbops.engine.errors import Refused
from dbops.security import permissions
from dbops.web.live.status_bars import ProcessStatus
from dbops.web.middleware.sample import ALLOWED
from dbops.worker import connections
from tests.app import rows

BAR = '<aside class="sample-bar"'


@pytest.fixture
def sample(settings: Any) -> None:
    settings.SAMPLE = True


@pytest.mark.usefixtures("sample")
def test_sample_mode_marks_every_page(operator: Client) -> None:
    rows.make_fleet()
    for address in ("/", "/clusters/shop/", "/audit/", "/nothing-here/", "/inventory/"):
        page = operator.get(address).content.decode()
        assert BAR in page, address
        assert page.partition("<title>")[2].split()[0] == "Sample:", address
    assert BAR in Client().get("/login/").content.decode()


def test_real_mode_marks_no_page(operator: Client) -> None:
    page = operator.get("/").content.decode()
    assert BAR not in page
    assert page.partition("<title>")[2].split()[0] != "Sample:"


def addresses(resolver: Any = None, prefix: str = "/") -> list[tuple[str, str]]:
    """Every address of the product with something in each of its places, and its name."""
    found: list[tuple[str, str]] = []
    values = {"str": "x", "int": "1", "method": "resume", "key": "k", "month": "2026-03"}
    for item in (resolver or get_resolver()).url_patterns:
        route = prefix + str(item.pattern)
        for kind, value in values.items():
            while f"<{kind}:" in route:
                start, _, rest = route.partition(f"<{kind}:")
                route = start + value + rest.partition(">")[2]
        found += addresses(item, route) if isinstance(item, URLResolver) else [(route, str(item.name))]
    return found


@pytest.mark.usefixtures("sample")
def test_sample_mode_refuses_every_change(operator: Client) -> None:
    asked = [(address, name) for address, name in addresses() if name not in ALLOWED]
    assert len(asked) > 40
    for address, name in asked:
        answer = operator.post(address, {"reason": "for a test"})
        assert answer.status_code == 409, (address, name)
        assert "sample.read_only" in answer.content.decode()


@pytest.mark.usefixtures("sample")
def test_language_is_chosen_in_sample_mode(operator: Client) -> None:
    chosen = operator.post("/language/", {"language": "ja", "next": "/audit/"})
    assert (chosen.status_code, chosen.headers["Location"]) == (302, "/audit/")
    assert '<html lang="ja"' in operator.get("/audit/").content.decode()


@pytest.mark.usefixtures("sample", "db")
def test_report_is_refused_in_sample_mode() -> None:
    answer = Client().post("/api/v1/backup-runs/one/start", {}, content_type="application/json")
    assert answer.json()["error"]["code"] == "sample.read_only"


@pytest.mark.usefixtures("sample")
def test_sample_mode_refuses_operations_and_connections(olga: Any) -> None:
    fleet = rows.make_fleet()
    instance = fleet["replica-1"]
    for act in (
        lambda: permissions.require_operator(olga, "Rebuilding"),
        lambda: permissions.require_superuser(olga, "Adding an account"),
        lambda: connections.open_shell(instance.host),
        lambda: connections.open_database(instance),
    ):
        with pytest.raises(Refused) as refused:
            act()
        assert refused.value.code == "sample.read_only"


@pytest.mark.usefixtures("sample")
def test_sample_mode_marks_file_names(operator: Client) -> None:
    answer = operator.get("/inventory/export/")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="sample-fleet.yaml"'


@pytest.mark.usefixtures("sample")
def test_status_bars_are_empty_in_sample_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask() -> bool:
        raise AssertionError("Redis was asked")

    monkeypatch.setattr(ProcessStatus, "is_fresh", False)
    assert ProcessStatus(ask_redis=ask).bars() == []


def test_empty_page_links_to_the_sample(operator: Client, settings: Any) -> None:
    settings.SAMPLE_URL = "http://127.0.0.1:8001/"
    assert 'href="http://127.0.0.1:8001/"' in operator.get("/").content.decode()
