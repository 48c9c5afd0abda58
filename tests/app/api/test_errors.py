"""Every error of the API is a problem document."""

from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

from dbops.models import Instance
from dbops.web import bearer
from dbops.web.api import clusters
from tests.app.api.calls import BASE, Program, good, problem

pytestmark = pytest.mark.django_db


def test_unknown_address(reader: Program, operator: Client) -> None:
    problem(reader.get("/nowhere"), 404, "api.not_found")
    problem(operator.get(f"{BASE}/clusters/"), 404, "api.not_found")
    problem(Client().get(f"{BASE}/"), 404, "api.not_found")
    problem(reader.post("/nowhere"), 404, "api.not_found")
    problem(reader.get("/clusters/none"), 404, "api.not_found")
    problem(reader.get("/rebuilds/1"), 404, "api.not_found")


@pytest.mark.parametrize("method", ["put", "delete", "patch", "options", "trace"])
def test_wrong_method(reader: Program, method: str) -> None:
    answer = getattr(Client(), method)(f"{BASE}/clusters", headers=reader.headers)
    problem(answer, 405, "api.method")
    assert answer.headers["Allow"] == "GET"


@pytest.mark.parametrize(
    "address",
    [
        "/rebuilds?status=ill",
        "/rebuilds?statsu=failed",
        "/rebuilds?limit=0",
        "/rebuilds?limit=201",
        f"/rebuilds?cursor={2**70}",
        f"/rebuilds/{2**70}",
        "/rebuilds/-1",
        "/rebuilds/one",
        "/audit?actor=a%00b",
        "/audit?since=yesterday",
        "/instances?cluster=a%00b",
        "/clusters/a%20b",
        "/availability?days=367",
    ],
)
def test_invalid_part(reader: Program, address: str) -> None:
    problem(Client().get(BASE + address, headers=reader.headers), 422, "api.invalid")


def test_invalid_field_is_named(fleet: dict[str, Instance], program: Program) -> None:
    found = problem(program.post("/instances/replica-1/plan", {"method": "magic"}), 422, "api.invalid")
    assert [one["field"] for one in found["errors"]] == ["body.method"]


@pytest.mark.parametrize("body", ["", "{", "[]", "1", '"', "[" * 100_000])
def test_body_that_is_no_object(fleet: dict[str, Instance], program: Program, body: str) -> None:
    answer = program.post("/instances/replica-1/plan", body)
    problem(answer, answer.status_code, "api.invalid")
    assert answer.status_code in (400, 422)


@pytest.mark.parametrize("secret", ["", "wrong", "\x00", "ü" * 8, "x" * 5000])
def test_wrong_token(db: None, secret: str) -> None:
    problem(Client().get(f"{BASE}/clusters", headers={"Authorization": f"Bearer {secret}"}), 401, "token.unknown")


def test_missing_token_and_other_scheme(db: None) -> None:
    for headers in ({}, {"Authorization": "Basic b2xnYTpvbGdh"}):
        answer = Client().get(f"{BASE}/clusters", headers=headers)
        problem(answer, 401, "token.unknown")
        assert answer.headers["WWW-Authenticate"] == 'Bearer realm="dbops"'


def test_too_many_requests(reader: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bearer, "REQUESTS_A_MINUTE", 2)
    answers = [reader.get("/clusters") for _ in range(3)]
    assert [one.status_code for one in answers] == [200, 200, 429]
    problem(answers[-1], 429, "report.too_many")
    assert answers[-1].headers["Retry-After"] == "60"
    cache.clear()


def test_unexpected_error_has_no_detail(reader: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(clusters, "clusters_now", broken)
    answer = reader.get("/clusters")
    problem(answer, 500, "api.failed")
    assert "secret detail" not in answer.content.decode()
    assert answer.headers["X-Request-ID"]


def test_large_body_is_refused(fleet: dict[str, Instance], program: Program) -> None:
    answer = program.post("/instances/replica-1/plan", '{"source": "' + "x" * 3_000_000 + '"}')
    problem(answer, answer.status_code, "api.invalid")
    assert answer.status_code in (400, 413)


def test_sample_reads_and_plans_and_refuses_changes(
    fleet: dict[str, Instance], program: Program, settings: Any
) -> None:
    settings.SAMPLE = True
    good(program.get("/clusters"))
    good(program.post("/instances/replica-1/plan"))
    for address in ("/rebuilds", "/rebuilds/1/cancel", "/clusters/shop/maintenance", "/backup-schedules/x/run"):
        problem(program.post(address), 409, "sample.read_only")
