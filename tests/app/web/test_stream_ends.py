"""Both ends of a stream that failed, side by side on the page and in the command line's result."""

import html
import json
import re
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from dbops.engine.states import Status, StepState
from dbops.management.commands.rebuild import Command as RebuildCommand
from dbops.models import ExecutedCommand, Rebuild, RebuildStep
from dbops.queries.rebuilds import pages as queries
from dbops.web.templatetags.dbops import ended, ssh_ended
from tests.app.factories import make_rebuild, make_trio

from .marks import marks

pytestmark = pytest.mark.django_db

RESULT = {
    "exit_statuses": {"source backup": 137, "transport": 137, "unpack": None},
    "tails": {"source": ">> scanned (42)\n<b>raw</b> \x1b[31mred", "transport": "Killed\n", "unpack": ""},
}


@pytest.fixture
def failed(db: None) -> Rebuild:
    _, backup, replica = make_trio()
    rebuild = make_rebuild(target=replica, source=backup, status=Status.FAILED)
    RebuildStep.objects.filter(rebuild=rebuild, name="stream").update(state=StepState.FAILED, result=RESULT)
    for key, text in (("stream.backup", "mariadb-backup --stream"), ("stream", "ssh -T backup | mbstream -x")):
        ExecutedCommand.objects.create(rebuild=rebuild, key=key, place="h", text=text, started_at=timezone.now())
    return rebuild


def sides(client: Client, rebuild: Rebuild) -> tuple[str, str]:
    text = client.get(f"/rebuilds/{rebuild.pk}/").content.decode()
    found = re.findall(r'<section class="stream-end".*?</section>', text, re.DOTALL)
    assert len(found) == 2
    return found[0], found[1]


def test_each_end_shows_host_command_exit_status_and_output(viewer: Client, failed: Rebuild) -> None:
    source, target = sides(viewer, failed)
    for shown in ("host-backup-1", "mariadb-backup --stream", ended(137), "(42)"):
        assert shown in source
        assert shown not in target
    for shown in ("host-replica-1", "| mbstream -x", ssh_ended(137), "Killed", ended(None)):
        assert shown in target
        assert shown not in source
    assert (marks(source, "exit-status"), marks(source, "tail")) == (["137"], [])
    assert (marks(target, "exit-status"), marks(target, "tail")) == (["137", "unknown"], ["empty"])
    assert "<b>raw</b> red" in html.unescape(source)
    assert "<b>" not in source


def test_error_is_shown_above_both_ends(viewer: Client, failed: Rebuild) -> None:
    Rebuild.objects.update(
        error={"code": "stream.killed", "who": "host", "operation": "Copying", "next_step": "next-part"}
    )
    text = viewer.get(f"/rebuilds/{failed.pk}/").content.decode()
    assert text.index("next-part") < text.index('id="stream-ends-title"') < text.index('id="steps-title"')
    assert text.count("(42)") == 1, "the same lines are not shown twice"


@pytest.mark.parametrize(
    ("state", "result"),
    [(StepState.DONE, RESULT), (StepState.CANCELLED, RESULT), (StepState.FAILED, {}), (StepState.SKIPPED, {})],
)
def test_page_has_no_ends_without_a_failed_stream(
    viewer: Client, failed: Rebuild, state: StepState, result: dict[str, Any]
) -> None:
    RebuildStep.objects.filter(rebuild=failed, name="stream").update(state=state, result=result)
    assert 'id="stream-ends-title"' not in viewer.get(f"/rebuilds/{failed.pk}/").content.decode()


def test_ends_of_a_stalled_stream_show_what_was_read(viewer: Client, failed: Rebuild) -> None:
    """A stalled stream has no exit statuses, and the target's last lines were not read."""
    RebuildStep.objects.filter(rebuild=failed, name="stream").update(
        result={"exit_statuses": {}, "tails": {"source": "tail-42"}}
    )
    source, target = sides(viewer, failed)
    assert "tail-42" in source
    assert (marks(source, "exit-status"), marks(source, "tail")) == (["unknown"], [])
    assert (marks(target, "exit-status"), marks(target, "tail")) == (["unknown"] * 2, ["unread"] * 2)
    assert target.count(ended(None)) == 2


def test_ends_take_one_query(failed: Rebuild, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    rebuild = queries.find(failed.pk)
    assert rebuild
    with django_assert_num_queries(4):  # steps, holds, commands, followers
        assert len(queries.page(rebuild).stream_ends) == 2


@pytest.mark.parametrize(
    ("status", "number", "signal"),
    [(130, "2", "SIGINT"), (137, "9", "SIGKILL"), (141, "13", "SIGPIPE")],
)
def test_ended_names_the_signal_that_killed_a_process(status: int, number: str, signal: str) -> None:
    text = ended(status)
    assert text.startswith(f"{status}: ")
    assert re.findall(r"\d+", text) == [str(status), number]
    assert f"({signal})" in text


def test_ended_names_no_signal_for_other_statuses() -> None:
    well, badly = ended(0).removeprefix("0"), ended(1).removeprefix("1")
    assert well != badly
    assert [ended(status) for status in (128, 255)] == [f"128{badly}", f"255{badly}"]
    assert "SIG" not in well + badly
    assert not re.search(r"\d", ended(None))


def test_ssh_ended_separates_255_from_the_status_of_the_source() -> None:
    assert ssh_ended(255).startswith("255: ")
    assert ssh_ended(1).startswith("1: ")
    assert ssh_ended(1).removeprefix("1") == ssh_ended(137).removeprefix("137")
    assert len({ssh_ended(255).removeprefix("255"), ssh_ended(1).removeprefix("1"), ended(1).removeprefix("1")}) == 3
    assert (ssh_ended(0), ssh_ended(None)) == (ended(0), ended(None))


def test_command_returns_the_ends_of_the_failed_step(failed: Rebuild) -> None:
    out = StringIO()
    command = RebuildCommand(stdout=out)
    command.as_json = True
    assert command._follow(failed) == 1
    steps = {step["name"]: step for step in json.loads(out.getvalue().splitlines()[-1])["steps"]}
    assert steps["stream"]["exit_statuses"] == RESULT["exit_statuses"]
    assert steps["stream"]["tails"] == RESULT["tails"]
    assert [name for name, step in steps.items() if "tails" in step] == ["stream"]


def test_command_refuses_to_put_back_what_was_not_changed(failed: Rebuild) -> None:
    """Nothing was changed by this rebuild: the command line refuses as the page does."""
    out = StringIO()
    Rebuild.objects.update(checkpoint={"touched": True})
    with pytest.raises(SystemExit) as ended_with:
        call_command("rebuild", "replica-1", "--roll-back", "--reason", "a test", "--json", stdout=out)
    assert ended_with.value.code == 2
    assert json.loads(out.getvalue())["error"]["code"] == "rebuild.no_follow_up"
