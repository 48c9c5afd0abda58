"""What the plan's page says a rebuild does to the others: the source, backups, the line and redundancy."""

import re
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.html import escape

from dbops.engine.planning.impact import DurationRange
from dbops.engine.schedule.conflicts import Activity
from dbops.engine.states import Status
from tests.app.factories import (
    make_channel,
    make_facts,
    make_instance,
    make_rebuild,
    make_trio,
    make_unreachable,
    set_facts,
)
from tests.engine.by_name import conflict_of

from .marks import marks, part, text_of
from .test_plan_starts import ADDRESS, HOUR, due_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def trio() -> Any:
    return make_trio()


class TestImpact:
    """The section about the source, backups, the queue and redundancy."""

    @staticmethod
    def seen(operator: Client) -> tuple[Any, str]:
        """Return what the page says happens, and its section."""
        answer = operator.get(ADDRESS)
        return answer.context["impact"], part(text_of(answer), 'id="fold-impact"', "</details>")

    def test_section_shows_how_long_the_source_is_paused(self, operator: Client, trio: Any) -> None:
        set_facts(trio[1], make_facts(server_id=2, binlog_format="STATEMENT", replication=(make_channel(),)))
        impact, section = self.seen(operator)
        assert (impact.pauses, impact.reading) == (True, DurationRange(None, None))
        assert marks(section, "pause") == ["unknown"]
        ended = timezone.now() - HOUR
        for _ in range(3):
            past = make_rebuild(target=trio[2], source=trio[1], status=Status.SUCCEEDED, finished_at=ended)
            past.steps.filter(name="release").update(state="done", started_at=ended - HOUR, finished_at=ended)
            past.steps.filter(name="stream").update(state="done", started_at=ended - HOUR, finished_at=ended)
            past.steps.filter(name="swap-datadir").update(
                name="pause", state="done", started_at=ended - HOUR, finished_at=ended
            )
        impact, section = self.seen(operator)
        assert impact.reading == DurationRange(10800, 10800)
        assert marks(section, "pause") == ["10800.0"]
        assert section.partition("data-pause")[2].partition("</dd>")[0].count("3 h 00 min") == 2
        answer = operator.get(ADDRESS)
        steps = part(text_of(answer), 'class="plan-steps"', "</ol>")
        [stream] = [step for step in answer.context["plan"].steps if step.name == "stream"]
        assert (stream.predicted_seconds, stream.predicted_p90_seconds, stream.predicted_runs) == (3600, 3600, 3)
        times = part(steps, 'data-step="stream"', "</summary>")
        assert times.count("1 h 00 min") == 2
        assert "(3 runs" in times

    def test_section_names_a_backup_that_is_due_during_the_rebuild(self, operator: Client, trio: Any) -> None:
        due = due_in(2, trio[1])
        impact, section = self.seen(operator)
        [collision] = impact.collisions
        assert (collision.window.schedule, collision.window.instance) == ("nightly", "backup-1")
        assert collision.window.starts_at == due
        expected = conflict_of("xbstream", Activity.AHEAD_MANAGED)
        assert expected
        assert collision.meaning == expected.reason
        assert marks(section, "collision") == ["nightly"]
        shown = section.partition("data-collision")[2].partition("</p>")[0]
        for said in ("backup-1", f"{due:%H:%M}", escape(collision.meaning)):
            assert said in shown
        assert marks(section, "pause") == ["none"]

    def test_section_shows_queue_and_redundancy(self, operator: Client, trio: Any) -> None:
        other = make_instance("replica-2", cluster=trio[2].cluster, facts=make_unreachable())
        waiting = make_rebuild(target=other, source=trio[1], status=Status.QUEUED)
        behind = make_instance("replica-3", cluster=trio[2].cluster, facts=make_unreachable())
        later = make_rebuild(target=behind, source=trio[1], status=Status.QUEUED, priority=-1)
        impact, section = self.seen(operator)
        for side, rebuild in (("before", waiting), ("behind", later)):
            line = part(section, f'data-line="{side}"', "</p>")
            assert re.findall(r'href="/rebuilds/(\d+)/"', line) == [str(rebuild.pk)]
        assert marks(section, "redundancy") == ["1/2/4"]
        assert impact.redundancy.healthy_during == ("backup-1",)
        shown = section.partition("data-redundancy")[2].partition("</dd>")[0]
        assert "backup-1" in shown
        assert 'class="state state-ok"' in shown

    def test_section_warns_when_no_healthy_replica_is_left(self, operator: Client, trio: Any) -> None:
        set_facts(trio[1], make_facts(server_id=2, replication=(make_channel(lag_seconds=4000.0),)))
        impact, section = self.seen(operator)
        assert impact.redundancy.is_lost
        assert len(impact.redundancy.replicas) == 2
        assert marks(section, "redundancy")[0].startswith("0/")
        shown = section.partition("data-redundancy")[2].partition("</dd>")[0]
        assert 'class="state state-warning"' in shown
