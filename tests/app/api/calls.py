"""Calls of the API as a program makes them."""

import json
import uuid
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.test import Client

from dbops.models import Cluster
from dbops.operations.api_tokens import make_api_token

BASE = "/api/v1"
REASON = "disk replaced"


@dataclass
class Program:
    """A program with a token."""

    secret: str

    def get(self, address: str, **asked: Any) -> Any:
        return Client().get(BASE + address, asked, headers=self.headers)

    def post(self, address: str, given: Any = None, *, key: str | None = None, **headers: str) -> Any:
        body = given if isinstance(given, str) else json.dumps({} if given is None else given)
        sent = {**self.headers, "Idempotency-Key": key or uuid.uuid4().hex, **headers}
        client = Client(enforce_csrf_checks=True, raise_request_exception=False)
        return client.post(BASE + address, body, "application/json", headers=sent)

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.secret}"}


def program_of(user: User, scope: str = "operate", *, clusters: list[Cluster] | None = None, name: str = "") -> Program:
    """Return a program with a new token of a user."""
    name = name or f"{user.get_username()}-{uuid.uuid4().hex[:8]}"
    return Program(make_api_token(actor=user, name=name, scope=scope, clusters=clusters, days=30)[1])


def problem(answer: Any, status: int, code: str) -> dict[str, Any]:
    """Return a problem document, and check its form."""
    assert answer.headers["Content-Type"] == "application/problem+json"
    found: dict[str, Any] = answer.json()
    assert (answer.status_code, found["status"], found["code"]) == (status, status, code)
    assert found["type"].endswith(f"/errors/#{code}")
    assert found["title"]
    return found


def good(answer: Any, status: int = 200) -> Any:
    """Return the body of an answer that is no error."""
    assert answer.status_code == status, answer.content
    return answer.json()


def rebuild_request(program: Program, **changed: Any) -> dict[str, Any]:
    """Plan a rebuild, and return the request of that plan."""
    plan = good(program.post("/instances/replica-1/plan"))
    return {
        "target": "replica-1",
        "source": plan["source"],
        "confirm": "replica-1",
        "reason": REASON,
        "fingerprint": plan["fingerprint"],
        **changed,
    }
