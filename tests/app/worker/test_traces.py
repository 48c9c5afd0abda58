"""Traces of rebuilds, sent to a real receiver and read as a collector reads them."""

import gzip
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.proto.trace.v1.trace_pb2 import Status as SpanStatus

from dbops.drivers import traces
from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.states import Status, StepState
from dbops.models import Rebuild
from dbops.worker import trace_sender
from tests.app.factories import make_rebuild, make_trio
from tests.app.notifications.receivers import HttpReceiver, running_http
from tests.networks import free_port

pytestmark = pytest.mark.django_db
NOW = timezone.now().replace(microsecond=123456)


@pytest.fixture
def collector(settings: Any) -> Iterator[HttpReceiver]:
    with running_http() as receiver:
        receiver.statuses = [200] * 20
        settings.TRACES_URL = receiver.address
        yield receiver


@pytest.fixture
def failed() -> Rebuild:
    """A rebuild that waited 30 s and failed in its second step after 60 s."""
    trio = make_trio()
    rebuild = make_rebuild(target=trio[2], source=trio[1], status=Status.FAILED, error={"code": "stream.failed"})
    Rebuild.objects.filter(pk=rebuild.pk).update(
        requested_at=NOW - timedelta(seconds=100),
        started_at=NOW - timedelta(seconds=70),
        finished_at=NOW - timedelta(seconds=10),
        reason="a secret of a person",
    )
    first, second, *_ = rebuild.steps.all()
    rebuild.steps.update(state=StepState.SKIPPED)
    rebuild.steps.filter(pk=first.pk).update(
        state=StepState.DONE, started_at=NOW - timedelta(seconds=70), finished_at=NOW - timedelta(seconds=60)
    )
    rebuild.steps.filter(pk=second.pk).update(state=StepState.FAILED, started_at=NOW - timedelta(seconds=60))
    rebuild.refresh_from_db()
    return rebuild


def received(collector: HttpReceiver) -> list[Span]:
    found = []
    for _, _, headers, body in collector.seen:
        content = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
        for part in ExportTraceServiceRequest.FromString(content).resource_spans:
            found += [span for scope in part.scope_spans for span in scope.spans]
    return found


def attributes(span: Span) -> dict[str, str | int]:
    return {one.key: one.value.string_value or one.value.int_value for one in span.attributes}


def seconds(span: Span) -> float:
    return (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9


def test_failed_rebuild_is_a_trace_with_its_queue_and_the_steps_that_ran(
    collector: HttpReceiver, failed: Rebuild
) -> None:
    assert trace_sender.send_due() == 1
    whole, queue, first, second = received(collector)
    assert {span.trace_id.hex() for span in (whole, queue, first, second)} == {failed.uid.zfill(32)}
    assert {span.parent_span_id for span in (queue, first, second)} == {whole.span_id}
    assert whole.parent_span_id == b""
    names = [step.name for step in failed.steps.all()[:2]]
    assert [span.name for span in (whole, queue, first, second)] == ["rebuild", "queue", *names]
    assert [seconds(span) for span in (whole, queue, first, second)] == [90, 30, 10, 50]
    assert whole.start_time_unix_nano % 1_000_000_000 == 123_456_000
    assert attributes(whole) == {
        "dbops.rebuild.id": failed.pk,
        "dbops.rebuild.method": failed.method,
        "dbops.rebuild.status": "failed",
        "dbops.cluster": failed.target.cluster.name,
        "dbops.target": failed.target.name,
        "dbops.source": failed.source.name,
        "dbops.requested_by": failed.requested_by.username,
        "error.type": "stream.failed",
    }
    assert [span.status.code for span in (whole, queue, first, second)] == [
        SpanStatus.STATUS_CODE_ERROR,
        SpanStatus.STATUS_CODE_UNSET,
        SpanStatus.STATUS_CODE_UNSET,
        SpanStatus.STATUS_CODE_ERROR,
    ]
    assert b"a secret of a person" not in collector.seen[0][3]


def test_trace_is_sent_once(collector: HttpReceiver, failed: Rebuild) -> None:
    assert [trace_sender.send_due() for _ in range(2)] == [1, 0]
    assert len(collector.seen) == 1


@pytest.mark.parametrize("status", [Status.QUEUED, Status.RUNNING, Status.LOST])
def test_unfinished_rebuild_is_not_sent(collector: HttpReceiver, failed: Rebuild, status: Status) -> None:
    Rebuild.objects.update(status=status)
    assert trace_sender.send_due() == 0
    assert collector.seen == []


def test_old_rebuild_is_not_sent(collector: HttpReceiver, failed: Rebuild) -> None:
    Rebuild.objects.update(finished_at=NOW - timedelta(days=2))
    assert trace_sender.send_due() == 0


def test_cancelled_rebuild_that_never_started_has_only_its_queue(collector: HttpReceiver, failed: Rebuild) -> None:
    Rebuild.objects.update(status=Status.CANCELLED, started_at=None, error={})
    failed.steps.update(started_at=None, finished_at=None, state=StepState.CANCELLED)
    assert trace_sender.send_due() == 1
    whole, queue = received(collector)
    assert (seconds(whole), seconds(queue), whole.status.code) == (90, 90, SpanStatus.STATUS_CODE_UNSET)


def test_refused_trace_is_sent_later_with_the_same_keys(collector: HttpReceiver, failed: Rebuild) -> None:
    collector.statuses = [400, 200]
    assert [trace_sender.send_due() for _ in range(3)] == [0, 1, 0]
    keys = [(span.trace_id, span.span_id) for span in received(collector)]
    assert keys[:4] == keys[4:]
    assert len(set(keys)) == 4


def test_step_that_ends_before_its_beginning_has_no_length(collector: HttpReceiver, failed: Rebuild) -> None:
    """The clock was set back."""
    failed.steps.exclude(started_at=None).update(finished_at=NOW - timedelta(hours=1))
    trace_sender.send_due()
    assert [seconds(span) for span in received(collector)[2:]] == [0, 0]


def test_headers_come_from_the_variables_of_opentelemetry(
    collector: HttpReceiver, failed: Rebuild, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=dba")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    monkeypatch.setenv("DBOPS_SECRET_KEY", "not for the process")
    assert trace_sender.send_due() == 1
    assert collector.seen[0][2]["x-team"] == "dba"
    assert len(received(collector)) == 4


def test_collector_that_is_away_is_an_error_with_a_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "SECONDS", 2)
    with pytest.raises(Unreachable) as error:
        traces.send_traces([], f"http://127.0.0.1:{free_port()}/v1/traces", version="1")
    assert error.value.code == "trace.not_sent"


def test_missing_package_is_an_error_with_a_code(
    tmp_path: Path, collector: HttpReceiver, failed: Rebuild, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a Python without packages."""
    monkeypatch.setattr(sys, "executable", sys._base_executable)  # type: ignore[attr-defined]
    with pytest.raises(RemoteFailure) as error:
        traces.send_traces([], collector.address, version="1")
    assert error.value.code == "trace.package"
    assert trace_sender.send_due() == 0
    assert Rebuild.objects.get().traced_at is None
