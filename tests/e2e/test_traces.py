"""The trace of a real rebuild arrives at a receiver."""

import pytest

from tests.app.notifications.receivers import running_http
from tests.app.worker.test_traces import attributes, received
from tests.stack import running_stack, wait_for

pytestmark = pytest.mark.services
TARGET = "replica-1"


def test_real_rebuild_is_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    with running_http() as collector:
        collector.statuses = [200] * 10
        monkeypatch.setenv("DBOPS_TRACES_URL", f"{collector.address}/v1/traces")
        with running_stack(replicas=1, web=False) as stack:
            stack.wait_for_possible_plan(TARGET)
            stack.rebuild(TARGET)
            wait_for("the trace", lambda: collector.seen, 90)
            [row] = stack.rows("SELECT uid FROM dbops_rebuild")
            ran = stack.rows("SELECT name FROM dbops_rebuildstep WHERE started_at IS NOT NULL")
        whole, queue, *steps = received(collector)
        assert (whole.trace_id.hex(), queue.parent_span_id) == (row["uid"].zfill(32), whole.span_id)
        assert attributes(whole)["dbops.rebuild.status"] == "succeeded"
        assert {span.name for span in steps} == {step["name"] for step in ran}
        assert all(whole.start_time_unix_nano <= span.start_time_unix_nano for span in steps)
        assert all(span.end_time_unix_nano <= whole.end_time_unix_nano for span in steps)
