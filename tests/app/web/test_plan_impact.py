"""What the plan's page says a rebuild does to the others: the source, backups, the line and redundancy."""

import re
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

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

from .test_plan_starts import ADDRESS, HOUR, due_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def trio() -> Any:
    return make_trio()


class TestWhatItDoesToTheOthers:
    """The short section about the source, backups, the line and redundancy."""

    @staticmethod
    def section(operator: Client, **asked: str) -> str:
        text = operator.get(ADDRESS, asked).content.decode()
        part = text.split('id="impact-title"')[1].split("</section>")[0]
        return " ".join(re.sub(r"<[^>]+>", " ", part).split())

    def test_a_source_that_must_be_paused(self, operator: Client, trio: Any) -> None:
        set_facts(trio[1], make_facts(server_id=2, binlog_format="STATEMENT", replication=(make_channel(),)))
        said = self.section(operator)
        assert "paused during the copy; how long that is is not known yet." in said
        ended = timezone.now() - HOUR
        for _ in range(3):
            past = make_rebuild(target=trio[2], source=trio[1], status=Status.SUCCEEDED, finished_at=ended)
            past.steps.filter(name="release").update(state="done", started_at=ended - HOUR, finished_at=ended)
            past.steps.filter(name="stream").update(state="done", started_at=ended - HOUR, finished_at=ended)
            past.steps.filter(name="take_over").update(
                name="pause", state="done", started_at=ended - HOUR, finished_at=ended
            )
        assert (
            "paused about 3 h 00 min, in 9 of 10 cases at most 3 h 00 min. It catches up afterwards."
            in self.section(operator)
        )
        text = operator.get(ADDRESS).content.decode()
        assert "1 h 00 min, 9 in 10 within 1 h 00 min (3 runs)" in " ".join(text.split())

    def test_a_backup_that_is_due_meanwhile_is_named_with_its_time(self, operator: Client, trio: Any) -> None:
        due = due_in(2, trio[1])
        said = self.section(operator)
        assert f"collides nightly of backup-1 at {due:%H:%M}" in said.replace("tomorrow ", "")
        assert "late, and not lost" in said
        assert "goes on" in said

    def test_the_line_and_redundancy(self, operator: Client, trio: Any) -> None:
        other = make_instance("replica-2", cluster=trio[2].cluster, facts=make_unreachable())
        waiting = make_rebuild(target=other, source=trio[1], status=Status.QUEUED)
        behind = make_instance("replica-3", cluster=trio[2].cluster, facts=make_unreachable())
        later = make_rebuild(target=behind, source=trio[1], status=Status.QUEUED, priority=-1)
        said = self.section(operator)
        assert f"Before it: rebuild {waiting.pk} Wait behind it: rebuild {later.pk}" in said
        assert "1 of 4 replicas healthy while this runs : backup-1; now 2 of 4." in said.replace("runs:", "runs :")

    def test_no_healthy_replica_is_left(self, operator: Client, trio: Any) -> None:
        set_facts(trio[1], make_facts(server_id=2, replication=(make_channel(lag_seconds=4000.0),)))
        assert "none left 0 of 2 replicas healthy while this runs" in self.section(operator)
