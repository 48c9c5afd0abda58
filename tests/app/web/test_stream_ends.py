"""Both ends of a stream that failed, side by side on the page and in the command line's result."""

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
from dbops.models import Command, Rebuild, Step
from dbops.queries.rebuilds import pages as queries
from dbops.web.templatetags.dbops import ended, ssh_ended
from tests.app.factories import make_rebuild, make_trio

pytestmark = pytest.mark.django_db

RESULT = {
    "exit_statuses": {"source backup": 137, "transport": 137, "unpack": None},
    "tails": {"source": ">> log scanned up to (42)\n<b>raw</b> \x1b[31mred", "transport": "Killed\n", "unpack": ""},
}


@pytest.fixture
def failed(db: None) -> Rebuild:
    _, backup, replica = make_trio()
    rebuild = make_rebuild(target=replica, source=backup, status=Status.FAILED)
    Step.objects.filter(rebuild=rebuild, name="stream").update(state=StepState.FAILED, result=RESULT)
    for key, text in (("stream.backup", "mariadb-backup --stream"), ("stream", "ssh -T backup | mbstream -x")):
        Command.objects.create(rebuild=rebuild, key=key, place="h", text=text, started_at=timezone.now())
    return rebuild


def sides(client: Client, rebuild: Rebuild) -> tuple[str, str]:
    text = client.get(f"/rebuilds/{rebuild.pk}/").content.decode()
    found = re.findall(r'<section class="end".*?</section>', text, re.DOTALL)
    assert len(found) == 2
    return found[0], found[1]


def test_each_end_shows_its_host_its_command_how_it_ended_and_what_it_said(viewer: Client, failed: Rebuild) -> None:
    source, target = sides(viewer, failed)
    for shown in ("host-backup-1", "mariadb-backup --stream", "137: killed by signal 9 (SIGKILL)", "(42)"):
        assert shown in source
        assert shown not in target
    for shown in ("host-replica-1", "| mbstream -x", "137: passed on from the source", "Killed", "not known"):
        assert shown in target
        assert shown not in source
    assert "It wrote no line." in target
    assert "&lt;b&gt;raw&lt;/b&gt; red" in source


def test_the_cause_stands_above_both_ends(viewer: Client, failed: Rebuild) -> None:
    Rebuild.objects.update(error={"code": "stream.killed", "who": "host", "doing": "Copying", "next": "Look there."})
    text = viewer.get(f"/rebuilds/{failed.pk}/").content.decode()
    assert text.index("Look there.") < text.index("Both ends of the stream") < text.index('id="steps-title"')
    assert text.count("(42)") == 1, "the same lines are not shown twice"


@pytest.mark.parametrize(
    ("state", "result"),
    [(StepState.DONE, RESULT), (StepState.CANCELLED, RESULT), (StepState.FAILED, {}), (StepState.SKIPPED, {})],
)
def test_without_a_failed_stream_there_are_no_ends(
    viewer: Client, failed: Rebuild, state: StepState, result: dict[str, Any]
) -> None:
    Step.objects.filter(rebuild=failed, name="stream").update(state=state, result=result)
    assert "Both ends of the stream" not in viewer.get(f"/rebuilds/{failed.pk}/").content.decode()


def test_of_a_stream_that_we_ended_is_shown_what_was_read(viewer: Client, failed: Rebuild) -> None:
    """One that stalled has no exit statuses, and of the target nobody has read the last lines."""
    Step.objects.filter(rebuild=failed, name="stream").update(
        result={"exit_statuses": {}, "tails": {"source": "the last line"}}
    )
    source, target = sides(viewer, failed)
    assert "the last line" in source
    assert "not known" in source
    assert target.count("Its last lines were not read.") == 2
    assert target.count("not known") == 2
    assert "It wrote no line." not in source + target


def test_both_ends_cost_one_query(failed: Rebuild, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    rebuild = queries.find(failed.pk)
    assert rebuild
    with django_assert_num_queries(4):  # steps, holds, commands, followers
        assert len(queries.page(rebuild).ends) == 2


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (None, "not known"),
        (0, "0: ended without an error"),
        (1, "1: ended with an error"),
        (130, "130: killed by signal 2 (SIGINT)"),
        (137, "137: killed by signal 9 (SIGKILL)"),
        (141, "141: killed by signal 13 (SIGPIPE)"),
        (128, "128: ended with an error"),
        (255, "255: ended with an error"),
    ],
)
def test_exit_statuses_in_words(status: int | None, text: str) -> None:
    assert ended(status) == text


def test_what_ssh_ends_with_is_its_own_only_at_255() -> None:
    assert ssh_ended(255) == "255: SSH itself failed, or the connection was lost"
    assert ssh_ended(1) == "1: passed on from the source"
    assert (ssh_ended(0), ssh_ended(None)) == (ended(0), ended(None))


def test_the_command_line_tells_both_ends_of_the_step_that_failed(failed: Rebuild) -> None:
    out = StringIO()
    command = RebuildCommand(stdout=out)
    command.as_json = True
    assert command._follow(failed) == 1
    steps = {step["name"]: step for step in json.loads(out.getvalue().splitlines()[-1])["steps"]}
    assert steps["stream"]["exit_statuses"] == RESULT["exit_statuses"]
    assert steps["stream"]["tails"] == RESULT["tails"]
    assert [name for name, step in steps.items() if "tails" in step] == ["stream"]


def test_the_command_line_puts_back_by_the_same_verb(failed: Rebuild) -> None:
    """Nothing was changed by this rebuild: the command line refuses as the page does."""
    out = StringIO()
    Rebuild.objects.update(memory={"touched": True})
    with pytest.raises(SystemExit) as ended_with:
        call_command("rebuild", "replica-1", "--put-back", "--reason", "a test", "--json", stdout=out)
    assert ended_with.value.code == 2
    assert json.loads(out.getvalue())["error"]["code"] == "rebuild.no_follow_up"
