"""Every template that code or another template names exists: a page that only a poll renders would miss it late."""

import re
from pathlib import Path

import pytest
from django.template.loader import get_template
from django.test import Client

ROOT = Path(__file__).parents[3]
NAMED = re.compile(r"[\"']([\w/-]+\.html)[\"']")


def names() -> set[str]:
    files = [*(ROOT / "dbops").rglob("*.py"), *(ROOT / "templates").rglob("*.html")]
    return {name for file in files for name in NAMED.findall(file.read_text())}


@pytest.mark.parametrize("name", sorted(names()))
def test_named_template_exists(name: str) -> None:
    assert get_template(name)


@pytest.mark.django_db
def test_queue_answers_a_poll(viewer: Client) -> None:
    assert viewer.get("/queue/", headers={"HX-Request": "true"}).status_code == 200
