"""The recent rebuilds of a cluster, on its page and in the list."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.html import strip_tags

from dbops.engine.states import Status
from tests.app.factories import make_rebuild, make_trio

pytestmark = pytest.mark.django_db


def test_cluster_history_shows_duration_and_slowest_step(viewer: Client) -> None:
    _, backup, replica = make_trio()
    make_trio("legacy")
    past = make_rebuild(
        target=replica, source=backup, status=Status.SUCCEEDED, started_at=timezone.now() - timedelta(hours=1)
    )
    begun = timezone.now() - timedelta(hours=1)
    past.steps.filter(name="stream").update(started_at=begun, finished_at=begun + timedelta(minutes=40))
    past.steps.filter(name="prepare").update(started_at=begun, finished_at=begun + timedelta(minutes=9))
    waiting = make_rebuild(
        target=replica, source=backup, status=Status.CANCELLED, started_at=None, reason="<i>x</i>\x1b[1m"
    )
    page = viewer.get("/clusters/shop/")
    text = page.content.decode()
    history = text.split('id="recent-title"')[1].split("</section>")[0]
    said = " ".join(strip_tags(history).split())
    first = next(item for item in page.context["page"].recent if item.rebuild.pk == past.pk)
    assert (first.slowest, first.slowest_seconds) == (past.steps.get(name="stream").title, 40 * 60)
    for shown in ("1 h 00 min", first.slowest, "40 min 00 s", "olga"):
        assert shown in said
    never = history.split(f'id="rebuild-{waiting.pk}"')[1].split("</tr>")[0]
    assert never.count("<time") == 1, "when it was requested, and no start"
    assert "&lt;i&gt;x&lt;/i&gt;" in history
    assert f'href="/rebuilds/{waiting.pk}/"' in history
    assert 'href="/rebuilds/?cluster=shop"' in history
    listed = viewer.get("/rebuilds/?cluster=shop&status=succeeded").content.decode()
    assert f'id="rebuild-{past.pk}"' in listed
    assert f'id="rebuild-{waiting.pk}"' not in listed
    assert "cluster=shop&amp;status=failed" in listed
    assert f'id="rebuild-{past.pk}"' not in viewer.get("/rebuilds/?cluster=legacy").content.decode()
