"""The cluster page: what it leads with, what it folds, what a poll replaces."""

import re

import pytest
from django.test import Client
from django.utils import timezone

from dbops.engine.states import Status
from dbops.models import Maintenance
from dbops.queries.fleet import cluster
from tests.app.factories import (
    make_channel,
    make_facts,
    make_instance,
    make_rebuild,
    make_schedule,
    make_trio,
    set_facts,
)

pytestmark = pytest.mark.django_db


def test_cluster_page_leads_with_rebuild_buttons_for_instances_with_problems_first(
    operator: Client, viewer: Client
) -> None:
    _, _, replica = make_trio()
    set_facts(replica, make_facts(replication=(make_channel(sql_running="No"),)))
    page = operator.get("/clusters/shop/")
    assert [row.instance.name for row in page.context["page"].row.can_be_rebuilt] == ["replica-1", "backup-1"]
    lead = page.content.decode().partition('id="instances-title"')[0]
    assert re.findall(r'id="rebuild-([\w-]+)"', lead) == ["replica-1", "backup-1"]
    assert f'data-answer="{page.context["agenda"].eligibility.answer}"' in lead
    assert 'id="rebuild-' not in viewer.get("/clusters/shop/").content.decode()


def test_cluster_page_has_at_most_six_rebuild_buttons(operator: Client) -> None:
    primary, _, _ = make_trio()
    for number in range(10):
        make_instance(f"more-{number}", cluster=primary.cluster, facts=make_facts())
    assert operator.get("/clusters/shop/").content.decode().count('id="rebuild-') == cluster.BUTTONS == 6


def fold(text: str, name: str) -> bool:
    """Tell whether a part of the page that can be folded is open."""
    (tag,) = re.findall(rf'<details[^>]*id="{name}"[^>]*>', text)
    return " open" in tag


def test_cluster_page_folds_what_is_empty(operator: Client) -> None:
    _, backup, replica = make_trio()
    folds = ("queue-fold", "schedules-fold", "maintenance-fold")
    text = operator.get("/clusters/shop/").content.decode()
    empty = ("queue-fold-empty", "schedules-fold", "maintenance-fold", "recent-fold", "week-fold")
    assert [fold(text, name) for name in empty] == [False] * 5
    make_rebuild(target=replica, source=backup, status=Status.QUEUED)
    make_schedule(backup)
    Maintenance.objects.create(
        cluster=backup.cluster, starts_at=timezone.now(), ends_at=None, reason="new disks", created_by="olga"
    )
    text = operator.get("/clusters/shop/").content.decode()
    assert [fold(text, name) for name in folds] == [True] * 3


def test_poll_of_the_cluster_page_replaces_the_timeline_as_well(viewer: Client) -> None:
    make_trio()
    text = viewer.get("/clusters/shop/", headers={"HX-Request": "true"}).content.decode()
    assert text.count('id="timeline" hx-swap-oob="innerHTML"') == 1
    assert 'id="recent-fold"' in text.partition('id="timeline"')[2]
    assert "hx-swap-oob" not in viewer.get("/clusters/shop/").content.decode()
