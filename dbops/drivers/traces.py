"""Send traces to a collector of OpenTelemetry, in a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.facts.instance import to_record
from dbops.engine.phrases import phrase
from dbops.engine.rebuilds.trace import Trace

PROGRAM = Path(__file__).with_name("trace_process.py")
#: Longest time of a delivery.
SECONDS = 20
#: Variables that the process gets. Those of OpenTelemetry hold headers and certificates for the collector.
KEPT, OF_OPENTELEMETRY = ("PATH", "LANG", "LC_ALL", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"), "OTEL_"


def send_traces(traces: Sequence[Trace], address: str, *, version: str) -> None:
    """Send traces, and return when the collector has taken them.

    Args:
        address: URL of the collector for traces (OTLP over HTTP), such as ``http://127.0.0.1:4318/v1/traces``.
        version: of dbops.

    Raises:
        Unreachable: no connection, no answer in time, or a refusal (``trace.not_sent``).
        RemoteFailure: the package of OpenTelemetry is not installed (``trace.package``).
    """
    operation = phrase("Sending traces of rebuilds")
    job = {
        "address": address,
        "version": version,
        "seconds": SECONDS,
        "traces": [to_record(trace) for trace in traces],
    }
    env = {name: value for name, value in os.environ.items() if name in KEPT or name.startswith(OF_OPENTELEMETRY)}
    try:
        ended = subprocess.run(
            [sys.executable, "-I", "-B", "-W", "ignore", str(PROGRAM)],
            input=json.dumps(job).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=env,
            timeout=SECONDS + 5,
            check=False,
            start_new_session=True,
        )
        problem = json.loads(ended.stdout.splitlines()[-1])["problem"]
    except (subprocess.TimeoutExpired, ValueError, LookupError) as error:
        raise Unreachable(
            "trace.not_sent", operation, cause=phrase("no answer within {seconds} s", seconds=SECONDS)
        ) from error
    if problem is None:
        return
    kind, cause = problem
    if kind == "missing":
        raise RemoteFailure("trace.package", operation, cause=cause)
    raise Unreachable("trace.not_sent", operation, cause=cause or phrase("the collector did not take them"))
