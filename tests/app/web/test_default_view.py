"""The filters that each person keeps for the fleet page."""

import pytest
from django.test import Client

from dbops.models import DefaultView
from tests.app.factories import make_trio

pytestmark = pytest.mark.django_db


class TestStartView:
    """Each person begins with the filters that they have kept."""

    def test_default_view_is_saved_per_user_and_reset(self, operator: Client, viewer: Client) -> None:
        make_trio()
        sent = {"text": "shöp & co", "show": "trouble"}
        kept = viewer.post("/default-view/", sent)
        assert kept["Location"] == "/?show=trouble&text=sh%C3%B6p+%26+co"
        assert viewer.get("/")["Location"] == kept["Location"]
        assert "data-default-view" in viewer.get(kept["Location"]).content.decode()
        assert viewer.get("/?show=all").status_code == 200
        assert operator.get("/").status_code == 200
        # what polls is not sent elsewhere
        assert viewer.get("/", headers={"HX-Request": "true"}).status_code == 200
        viewer.post("/default-view/", {"text": "", "show": "all"})
        assert viewer.get("/").status_code == 200
        assert not DefaultView.objects.exists()

    def test_default_view_fits_the_column(self, viewer: Client) -> None:
        make_trio()
        viewer.post("/default-view/", {"text": "\U0001f42c" * 500, "show": "running"})
        assert len(DefaultView.objects.get().query) <= 1000
        assert viewer.get("/", follow=True).status_code == 200

    def test_default_view_accepts_post_only(self, viewer: Client) -> None:
        assert viewer.get("/default-view/").status_code == 405
