"""The comparison of all rows on the rebuild's page, as a problem of its replica, in evidence and on the command line."""

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from dbops.engine.errors import RemoteFailure
from dbops.engine.states import RunStatus, Status
from dbops.models import AuditEntry, Instance, Rebuild, RowComparison
from dbops.operations.rebuilds import plan_rebuild
from dbops.queries.fleet.cluster_status import clusters_now
from tests.app import rows
from tests.app.comparison_rows import RESULT, made_comparison
from tests.app.factories import make_rebuild, make_trio

from .marks import marks, part

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_broker")]
DIFFERS = RemoteFailure("comparison.differs", "Comparing all rows of replica-1", cause="shop.orders").as_record()
HOSTILE = '<script>alert("x")</script>'


@pytest.fixture
def trio() -> tuple[Instance, Instance, Instance]:
    return make_trio()


@pytest.fixture
def rebuilt(trio: tuple[Instance, Instance, Instance]) -> Rebuild:
    return make_rebuild(target=trio[2], source=trio[1], status=Status.SUCCEEDED)


def page_of(client: Client, rebuild: Rebuild) -> str:
    return client.get(f"/rebuilds/{rebuild.pk}/").content.decode()


def test_page_shows_the_progress_and_polls_while_it_runs(viewer: Client, rebuilt: Rebuild) -> None:
    found = made_comparison(rebuilt, RunStatus.RUNNING, revision=4, waiting_for=HOSTILE)
    text = page_of(viewer, rebuilt)
    assert marks(text, "comparison") == ["running"]
    assert marks(text, "count") == ["3"]
    assert HOSTILE not in text
    address = f"/rebuilds/{rebuilt.pk}/comparison/"
    assert f'hx-get="{address}?revision=4"' in text
    assert viewer.get(f"{address}?revision=4").status_code == 204
    answer = viewer.get(f"{address}?revision=3")
    assert marks(answer.content.decode(), "comparison") == ["running"]
    assert 'id="cancel-comparison"' not in text
    RowComparison.objects.update(status=RunStatus.SUCCEEDED, finished_at=timezone.now(), revision=5)
    after = viewer.get(f"{address}?revision=4").content.decode()
    assert marks(after, "comparison") == ["succeeded"]
    assert "hx-get" not in after
    assert found.pk


def test_page_that_was_open_at_the_success_loads_it(viewer: Client, rebuilt: Rebuild) -> None:
    made_comparison(rebuilt, RunStatus.RUNNING)
    Rebuild.objects.update(checkpoint={"certificate": {"continues": True}})
    address = f'hx-get="/rebuilds/{rebuilt.pk}/comparison/"'
    assert address in viewer.get(f"/rebuilds/{rebuilt.pk}/poll/").content.decode()
    assert address not in page_of(viewer, rebuilt)


def test_page_of_a_rebuild_without_one_has_no_part_for_it(viewer: Client, rebuilt: Rebuild) -> None:
    assert marks(page_of(viewer, rebuilt), "comparison") == []
    assert viewer.get(f"/rebuilds/{rebuilt.pk}/comparison/").status_code == 404


def test_page_names_what_differs_and_the_next_step(operator: Client, rebuilt: Rebuild) -> None:
    record = {**RESULT, "differences": [{"table": HOSTILE, "rows": "all rows"}]}
    given: dict[str, Any] = {"error": DIFFERS, "differing": 1, "checkpoint": {"comparison": record}}
    made_comparison(rebuilt, RunStatus.FAILED, finished_at=timezone.now(), **given)
    text = page_of(operator, rebuilt)
    assert len(marks(text, "comparison-differs")) == 1
    assert HOSTILE not in text
    assert marks(part(text, 'id="row-comparison"', "</section>"), "error") == ["comparison.differs"]
    assert 'id="rebuild-differing"' in text


def test_operator_cancels_it_after_a_confirmation(operator: Client, viewer: Client, rebuilt: Rebuild) -> None:
    found = made_comparison(rebuilt, RunStatus.QUEUED)
    address = f"/rebuilds/{rebuilt.pk}/comparison/cancel/"
    assert f'href="{address}"' in page_of(operator, rebuilt)
    assert viewer.get(address).status_code == viewer.post(address).status_code == 403
    assert operator.get(address).status_code == 200
    found.refresh_from_db()
    assert found.status == RunStatus.QUEUED
    assert operator.post(address).status_code == 302
    found.refresh_from_db()
    assert (found.status, found.cancel_requested_by) == (RunStatus.CANCELLED, "olga")
    assert operator.post(address).status_code == 409
    assert AuditEntry.objects.filter(action="comparison.cancel_requested").count() == 1


@pytest.mark.parametrize(("is_current", "state"), [(True, "warning"), (False, "healthy")])
def test_replica_whose_rows_differ_is_a_problem_until_it_is_rebuilt(
    viewer: Client, is_current: bool, state: str
) -> None:
    fleet = rows.make_fleet()
    rebuilt = make_rebuild(target=fleet["replica-1"], source=fleet["backup-1"], status=Status.SUCCEEDED)
    made_comparison(rebuilt, RunStatus.RUNNING, differing=1, is_current=is_current)
    answer = viewer.get("/clusters/shop/")
    row = answer.context["page"].row.named(rebuilt.target.name)
    assert row.state == state
    assert marks(answer.content.decode(), "differing") == (["1"] if is_current else [])
    [cluster] = clusters_now(timezone.now())
    assert [one.state for one in cluster.members if one.name == rebuilt.target.name] == [state]
    assert viewer.get("/").status_code == 200
    lineage = viewer.get("/instances/replica-1/lineage/").content.decode()
    assert marks(lineage, "differing") == (["1"] if is_current else [])
    plan = plan_rebuild(target=fleet["backup-1"], source=fleet["replica-1"])
    assert ("source.rows_differ" in [finding.code for finding in plan.warnings]) is is_current


def test_evidence_and_command_line_have_it(operator: Client, rebuilt: Rebuild) -> None:
    made_comparison(rebuilt, RunStatus.FAILED, error=DIFFERS, finished_at=timezone.now())
    text = operator.get(f"/rebuilds/{rebuilt.pk}/evidence/").content.decode()
    content = json.loads(text.partition('<script id="evidence" type="application/json">')[2].partition("</script>")[0])
    assert content["row_comparison"]["status"] == "failed"
    assert content["row_comparison"]["differences"] == RESULT["differences"]
    assert content["row_comparison"]["error"]["code"] == "comparison.differs"
    assert "certificate.rest" not in str(content["row_comparison"])
    RowComparison.objects.update(status=RunStatus.QUEUED, finished_at=None, error={})
    out = StringIO()
    call_command("rebuild", rebuilt.target.name, "--cancel-comparison", "--as", "olga", "--json", stdout=out)
    assert json.loads(out.getvalue())["row_comparison"]["status"] == "cancelled"
