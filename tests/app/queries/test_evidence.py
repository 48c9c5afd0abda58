"""Evidence of a rebuild: its content, and its check by the script of the document."""

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from dbops.audit.log import append
from dbops.engine.audit.chain import GENESIS, ChainHead
from dbops.engine.audit.excerpt import holes
from dbops.engine.states import Status, StepState
from dbops.lifecycle import leases, rebuild_driver
from dbops.lifecycle.rebuild_driver import RebuildLease, RebuildUpdate
from dbops.models import AuditEntry, ExecutedCommand, Rebuild
from dbops.operations.rebuilds import cancel_rebuild
from tests.app import rows
from tests.engine.audit.test_chain import chain
from tests.said import numbers

pytestmark = pytest.mark.django_db
DOCUMENT = Path(__file__).parents[3] / "docs" / "how-to" / "audit.md"
HOSTILE = "</script><script>alert(1)</script><!-- \u2028 \x1b[31m"
PRINTED = "printed by a host"
POSITION = {"log_file": "backup-1-bin.000007", "log_pos": 4711, "gtid": "0-12-4242"}
Content = dict[str, Any]


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbops.messaging.wakeups.publish", lambda *_: None)
    monkeypatch.setattr("dbops.messaging.updates.announce", lambda *_: None)


def lease_of(rebuild: Rebuild) -> RebuildLease:
    lease = rebuild_driver.take_lease(rebuild.pk)
    assert lease is not None
    return lease


@pytest.fixture
def running() -> Rebuild:
    """A rebuild whose copy has arrived, with a command; other audit entries are in between."""
    rebuild = rows.started_rebuild()
    append(actor="olga", action="test.other", subject="something else")
    lease = lease_of(rebuild)
    command = ExecutedCommand(
        rebuild=rebuild, key="a", step="stream", place="db-13", text=f"/bin/a {HOSTILE}", started_at=timezone.now()
    )
    rebuild_driver.heartbeat(lease, RebuildUpdate(started_commands={"a": command}), None)
    checkpoint = {"stream.bytes": 123456789, "position": POSITION, "checkpoints": {"to_lsn": 90, "last_lsn": 99}}
    news = RebuildUpdate(finished_commands={"a": (3, HOSTILE, timezone.now())})
    result = {"exit_statuses": {"unpack": 0}, "tails": {"unpack": PRINTED}}
    rebuild_driver.end_step(lease, "stream", StepState.DONE, result, news, checkpoint)
    leases.release_lease(lease, 0)
    return rebuild


@pytest.fixture
def ended(running: Rebuild) -> Rebuild:
    append(actor="olga", action="test.other", subject="something else")
    rebuild_driver.finish(lease_of(running), Status.FAILED, f"It broke: {HOSTILE}")
    append(actor="olga", action="test.other", subject="something else")
    running.refresh_from_db()
    return running


def html_of(client: Client, rebuild: Rebuild) -> str:
    answer = client.get(f"/rebuilds/{rebuild.pk}/evidence/")
    assert answer.status_code == 200
    assert answer["Content-Disposition"].startswith(f'attachment; filename="rebuild-{rebuild.pk}-')
    return answer.content.decode()


def content_of(html: str) -> Content:
    [text] = re.findall(r'<script id="evidence" type="application/json">(.*?)</script>', html, re.DOTALL)
    found: Content = json.loads(text)
    return found


def test_evidence_is_complete_when_the_rebuild_has_ended(viewer: Client, ended: Rebuild) -> None:
    html = html_of(viewer, ended)
    found = content_of(html)
    assert (found["request"]["by"], found["request"]["reason"]) == ("olga", "for a test")
    assert (
        found["request"]["fingerprint_shown"]
        == AuditEntry.objects.get(action="rebuild.requested").detail["fingerprint"]
    )
    assert (found["is_over"], found["end"]["status"]) == (True, "failed")
    assert found["data"] == {"bytes": 123456789, "position": POSITION, "checkpoints": {"to_lsn": 90, "last_lsn": 99}}
    [command] = found["commands"]
    assert (command["place"], command["exit_status"], command["command"]) == ("db-13", 3, f"/bin/a {HOSTILE}")
    assert [party["name"] for party in found["machines"]] == ["replica-1", "backup-1", "primary-1"]
    assert all(party["host_key_fingerprint"] for party in found["machines"])
    assert found["plan"]["findings"]
    stream = next(step for step in found["steps"] if step["name"] == "stream")
    assert stream["result"] == {"exit_statuses": {"unpack": 0}}
    actions = [entry["action"] for entry in found["audit"]["entries"]]
    assert actions == ["rebuild.requested", "rebuild.started", "command.ended", "rebuild.failed"]
    for shown in ("for a test", "0-12-4242", "last.lsn.{1,3}99", "123456789", "data-fingerprint=.same"):
        assert re.search(shown, html), shown
    assert "<strong data-unended" not in html
    assert PRINTED not in html


def test_evidence_is_self_contained_and_escaped(viewer: Client, ended: Rebuild) -> None:
    html = html_of(viewer, ended)
    assert html.count("<script") == html.count("</script") == 1
    for word in ("src=", "href=", "@import", "url(", "http://", "https://", "\x1b"):
        assert word not in html, word


def test_evidence_download_is_audited_with_its_hash(viewer: Client, ended: Rebuild) -> None:
    answer = viewer.get(f"/rebuilds/{ended.pk}/evidence/")
    entry = AuditEntry.objects.get(action="data.exported")
    assert (entry.actor, entry.instance) == ("victor", "replica-1")
    assert entry.detail["sha256"] == hashlib.sha256(answer.content).hexdigest()
    assert content_of(answer.content.decode())["audit"]["head"]["sequence"] == entry.sequence - 1
    again = content_of(html_of(viewer, ended))
    assert again["audit"]["entries"][-1]["action"] == "data.exported", "who took it before is in the next one"


def test_evidence_is_the_same_for_readers_of_each_language(viewer: Client, ended: Rebuild) -> None:
    viewer.cookies["dbops_language"] = "ja"
    assert viewer.get("/")["Content-Language"] == "ja"
    html = html_of(viewer, ended)
    assert '<html lang="en"' in html
    assert not re.search("[\N{HIRAGANA LETTER SMALL A}-\N{KATAKANA LETTER SMALL KE}]", html)
    assert viewer.get("/")["Content-Language"] == "ja"


def test_evidence_of_a_running_rebuild_is_marked_unended(viewer: Client, running: Rebuild) -> None:
    html = html_of(viewer, running)
    assert '<strong data-unended="running">' in html
    assert content_of(html)["is_over"] is False


def test_evidence_contains_a_cancel(viewer: Client, running: Rebuild) -> None:
    cancel_rebuild(actor=running.requested_by, rebuild=running)
    found = content_of(html_of(viewer, running))
    assert found["rebuild"]["cancel_requested_by"] == "olga"
    assert found["audit"]["entries"][-1]["action"] == "rebuild.cancel_requested"


def test_evidence_needs_permission_and_is_linked(
    client: Client, stranger: Client, viewer: Client, ended: Rebuild
) -> None:
    address = f"/rebuilds/{ended.pk}/evidence/"
    assert client.get(address).status_code == 302
    assert stranger.get(address).status_code == 403
    assert viewer.post(address).status_code == 405
    assert viewer.get("/rebuilds/4711/evidence/").status_code == 404
    assert not AuditEntry.objects.filter(action="data.exported").exists()
    assert f'href="{address}"' in viewer.get(f"/rebuilds/{ended.pk}/").content.decode()


def test_evidence_command_writes_the_same_file(tmp_path: Path, ended: Rebuild) -> None:
    to, said = tmp_path / "evidence.html", StringIO()
    call_command("evidence", str(ended.pk), html=to, stdout=said)
    assert content_of(to.read_text())["rebuild"]["number"] == ended.pk
    assert (
        AuditEntry.objects.get(action="data.exported").detail["sha256"] == hashlib.sha256(to.read_bytes()).hexdigest()
    )
    with pytest.raises(CommandError, match="4711"):
        call_command("evidence", "4711", html=to)
    with pytest.raises(CommandError, match=re.escape(str(tmp_path / "no"))):
        call_command("evidence", str(ended.pk), html=tmp_path / "no" / "such")
    assert list(tmp_path.iterdir()) == [to]
    assert AuditEntry.objects.filter(action="data.exported").count() == 1


def test_evidence_is_complete_for_a_renamed_target(viewer: Client, ended: Rebuild) -> None:
    type(ended.target).objects.filter(pk=ended.target_id).update(name="replica-9")
    assert len(content_of(html_of(viewer, ended))["audit"]["entries"]) == 4


# What an outsider makes of it


def outsider(folder: Path, html: str, export: str = "") -> tuple[int, str]:
    """Run the second script of the document."""
    script, page, log = folder / "evidence.py", folder / "rebuild.html", folder / "audit.jsonl"
    script.write_text(DOCUMENT.read_text().split("```python\n")[2].split("```")[0])
    page.write_bytes(html.encode())
    log.write_text(export)
    given = [sys.executable, script, page, *([log] if export else [])]
    done = subprocess.run(given, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout


@pytest.fixture
def exported(viewer: Client, ended: Rebuild, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """The file, and the whole log after it."""
    html = html_of(viewer, ended)
    call_command("audit", "export")
    return html, capsys.readouterr().out


def test_evidence_verifies_alone_and_with_the_log(tmp_path: Path, exported: tuple[str, str]) -> None:
    html, log = exported
    for export in ("", log):
        status, text = outsider(tmp_path, html, export)
        assert (status, numbers(text)) == (0, [content_of(html)["rebuild"]["number"], 4, 7]), text


def entry_of(shown: Content, number: int) -> Content:
    found: Content = shown["audit"]["entries"][number]
    return found


def swapped(found: Content) -> None:
    entries = found["audit"]["entries"]
    entries[0], entries[1] = entries[1], entries[0]


@pytest.mark.parametrize(
    ("tamper", "said", "alone"),
    [
        (lambda shown: entry_of(shown, 0).update(actor="mallory"), "entry {0}: changed", True),
        (lambda shown: entry_of(shown, 2)["detail"].update(exit_status=0), "entry {2}: changed", True),
        (lambda shown: entry_of(shown, 1).update(hash="0" * 64), "entry {1}: changed", True),
        (lambda shown: shown["plan"].update(cipher="none"), "plan", True),
        (lambda shown: shown["rebuild"].update(number=4711), "rebuild", True),
        (swapped, "{0}", True),
        (lambda shown: shown["audit"]["entries"].pop(2), "entry {2}", False),
        (lambda shown: shown["audit"]["head"].update(hash="0" * 64), "head", False),
    ],
)
def test_evidence_check_refuses_a_changed_file(
    tmp_path: Path, exported: tuple[str, str], tamper: Callable[[Content], Any], said: str, alone: bool
) -> None:
    html, log = exported
    shown = content_of(html)
    numbers = [entry["sequence"] for entry in shown["audit"]["entries"]]
    tamper(shown)
    changed = re.sub(
        r'(<script id="evidence" type="application/json">).*?(</script>)',
        lambda found: found[1] + json.dumps(shown).replace("<", "\\u003C") + found[2],
        html,
        flags=re.DOTALL,
    )
    status, text = outsider(tmp_path, changed, log)
    assert status == 1
    assert said.format(*numbers) in text
    assert outsider(tmp_path, changed)[0] == (1 if alone else 0)


def test_evidence_check_refuses_a_made_up_entry(tmp_path: Path, exported: tuple[str, str]) -> None:
    """Who makes a file can make its hashes: the log knows better."""
    html, log = exported
    made_up = log.replace('"actor":"olga"', '"actor":"mallory"', 1)
    status, text = outsider(tmp_path, html, made_up)
    assert status == 1
    sequences = [entry["sequence"] for entry in content_of(html)["audit"]["entries"]]
    assert set(numbers(text)) <= set(sequences), text
    assert sequences[0] in numbers(text)


def test_holes_lists_missing_ranges() -> None:
    links = chain(6)
    head = ChainHead(6, links[-1].hash)
    assert holes(links, head) == []
    assert holes([], ChainHead()) == []
    assert holes([links[1], links[2], links[4]], head) == [
        {"from": 1, "to": 1, "follows": GENESIS, "ends_with": links[0].hash},
        {"from": 4, "to": 4, "follows": links[2].hash, "ends_with": links[3].hash},
        {"from": 6, "to": 6, "follows": links[4].hash, "ends_with": links[5].hash},
    ]
