"""Schemathesis sends the running server what the OpenAPI document allows and what it forbids, and checks each answer."""

import os
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.contrib.auth.models import User
from django.db import connection
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode

from dbops.database import clock
from dbops.models import Instance
from dbops.operations import login_limits
from dbops.web import bearer
from dbops.web.api.root import openapi
from tests.app.api.calls import program_of
from tests.app.backup_rows import make_run, make_schedule
from tests.app.factories import make_event, make_rebuild

#: Of each operation, allowed and forbidden. More of them: `DBOPS_TEST_EXAMPLES=100 script/test tests/app/api/test_fuzz.py`.
EXAMPLES = int(os.environ.get("DBOPS_TEST_EXAMPLES", "5"))
#: Objects that are there, so that not every request ends with a 404. Numbers are those of the first rows.
THERE = dict.fromkeys(("rebuild_id", "run_id", "maintenance_id", "test_id", "sequence"), 1)
NAMES = {"clusters": "shop", "instances": "replica-1", "backup-schedules": "nightly"}
#: A stream, which this server (WSGI) cannot send: test_events.py.
STREAMS = {"follow_rebuild"}


@pytest.fixture
def server(
    fleet: dict[str, Instance], live_server: Any, olga: User, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, str]]:
    """The address of a running server with something of everything, and the secret of a token."""
    monkeypatch.setattr(bearer, "REQUESTS_A_MINUTE", 10**9)
    monkeypatch.setattr(bearer, "token_of", _without_limit)
    make_event(make_rebuild(target=fleet["replica-1"], source=fleet["backup-1"], requested_by=olga), "a line")
    make_run(make_schedule(fleet["backup-1"]), "succeeded", finished_at=clock.now(), path="/backups/one")
    yield live_server.url, program_of(olga).secret
    connection.close()


def _without_limit(secret: str, purpose: str) -> Any:
    """Check a token without counting wrong ones: the checks send many from one address."""
    login_limits.FailedAttempts.objects.all().delete()
    return token_of(secret, purpose)


token_of = bearer.token_of


def check(operation: Any, mode: GenerationMode, server: tuple[str, str]) -> int:
    """Send requests of one kind to an operation, and return their number."""
    url, secret = server
    sent = 0

    @given(case=operation.as_strategy(generation_mode=mode), is_there=st.booleans())
    @settings(max_examples=EXAMPLES, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    def send(case: Any, is_there: bool) -> None:
        nonlocal sent
        sent += 1
        if mode is GenerationMode.POSITIVE:
            for name in case.path_parameters if is_there else ():
                kind = operation.path.split("/")[3]
                case.path_parameters[name] = NAMES[kind] if name == "name" else THERE[name]
            if operation.method == "post" and case.headers and "Idempotency-Key" in case.headers:
                case.headers["Idempotency-Key"] = uuid.uuid4().hex
        case.call_and_validate(base_url=url, headers={"Authorization": f"Bearer {secret}"})

    send()
    return sent


@pytest.mark.filterwarnings("ignore:No directory at")  # static files are not collected for tests
@pytest.mark.django_db(transaction=True)
def test_every_operation_answers_as_its_document_says(server: tuple[str, str]) -> None:
    schema = schemathesis.openapi.from_dict(openapi())
    failures, sent = [], 0
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.definition.raw["operationId"] in STREAMS:
            continue
        for mode in GenerationMode:
            try:
                sent += check(operation, mode, server)
            except BaseExceptionGroup as group:
                failures.append(f"{operation.label} {mode}: {[str(one) for one in group.exceptions]}")
    assert not failures, "\n\n".join(failures)
    assert sent > 100
