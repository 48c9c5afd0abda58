"""Requests of the API for the processes of the races: each is answered by the whole product in its process."""

import json
from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import User
from django.test import Client

from dbops.models import AccessToken, KeptAnswer, Maintenance, Rebuild
from dbops.operations.api_tokens import make_api_token
from tests.app import rows
from tests.databases.deeds import empty

HOST = "localhost"


def api_fleet() -> str:
    """Create a small fleet that was just read, olga, and a token of hers. Return its secret."""
    empty()
    Maintenance.objects.all().delete()
    AccessToken.objects.all().delete()
    rows.make_fleet()
    return make_api_token(actor=rows.operator(), name="race", scope="operate", clusters=None, days=1)[1]


def api_post(secret: str, address: str, given: dict[str, Any], key: str) -> list[Any]:
    """Send a request. Return its status, whether it was answered before, and its answer."""
    headers = {"Authorization": f"Bearer {secret}", "Idempotency-Key": key}
    client = Client(SERVER_NAME=HOST, headers=headers)
    answer = client.post(f"/api/v1{address}", json.dumps(given), "application/json")
    return [answer.status_code, "Idempotency-Replayed" in answer.headers, answer.json()]


def api_rows() -> dict[str, int]:
    """Count what requests have written."""
    return {model.__name__: model.objects.count() for model in (Rebuild, Maintenance, KeptAnswer, User)}


DEEDS: dict[str, Callable[..., Any]] = {"api_fleet": api_fleet, "api_post": api_post, "api_rows": api_rows}
