"""The process that sends traces with OpenTelemetry, and nothing else. ``traces.send_traces`` starts it and reads its result.

It is a process of its own, because the library is optional, is slow to read, and starts threads.

Run it by its path: it gets traces as JSON on standard input, and prints a result as JSON.
"""

import json
import logging
import signal
import sys
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

try:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from opentelemetry.sdk.trace.id_generator import IdGenerator
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON
    from opentelemetry.trace import NonRecordingSpan, SpanContext, Status, StatusCode, TraceFlags, set_span_in_context
except ImportError:
    print(json.dumps({"problem": ["missing", "the package opentelemetry-exporter-otlp-proto-http is not installed"]}))
    sys.exit(0)

EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


class _Keys(IdGenerator):
    """Gives the keys that dbops chose: a trace that is sent twice is one trace."""

    def __init__(self) -> None:
        self.trace = self.span = 0

    def generate_trace_id(self) -> int:
        return self.trace

    def generate_span_id(self) -> int:
        return self.span


class _Problems(logging.Handler):
    """Keeps the last thing that the library says: its result is only yes or no."""

    text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text = record.getMessage()


def main() -> None:
    """Send the traces of standard input."""
    job = json.load(sys.stdin)
    signal.alarm(job["seconds"])  # also ends it when its parent was killed
    problems = _Problems()
    logging.getLogger("opentelemetry").addHandler(problems)
    exporter = OTLPSpanExporter(endpoint=job["address"], timeout=job["seconds"] / 2)
    result = exporter.export(_spans(job["traces"], job["version"]))
    is_sent = result is SpanExportResult.SUCCESS
    print(json.dumps({"problem": None if is_sent else ["refused", problems.text[:500]]}))


def _spans(traces: Iterable[dict[str, Any]], version: str) -> tuple[ReadableSpan, ...]:
    keys, made = _Keys(), InMemorySpanExporter()
    resource = Resource.create({"service.name": "dbops", "service.version": version})
    # each rebuild counts: there are few
    provider = TracerProvider(sampler=ALWAYS_ON, resource=resource, id_generator=keys, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(made))
    tracer = provider.get_tracer("dbops", version)
    for trace in traces:
        keys.trace = int(trace["key"], 16)
        for span in trace["spans"]:
            keys.span = int(span["key"], 16)
            started = tracer.start_span(
                span["name"],
                context=_parent(keys.trace, span["parent"]),
                attributes=span["attributes"],
                start_time=_nanoseconds(span["started_at"]),
            )
            if span["error"]:
                started.set_attribute("error.type", span["error"])
                started.set_status(Status(StatusCode.ERROR, span["error"]))
            started.end(_nanoseconds(span["finished_at"]))
    return made.get_finished_spans()


def _parent(trace: int, key: str) -> Any:
    if not key:
        return None
    parent = SpanContext(trace, int(key, 16), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return set_span_in_context(NonRecordingSpan(parent))


def _nanoseconds(moment: str) -> int:
    return (datetime.fromisoformat(moment) - EPOCH) // timedelta(microseconds=1) * 1000


if __name__ == "__main__":
    main()
