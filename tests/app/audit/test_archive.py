"""Archiving moves old entries into a file; file and database together still verify."""

import hashlib
import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction
from django.test import Client
from django.utils import timezone

from dbops.audit.log import append, current_anchor, current_head
from dbops.audit.trigger_sql import REFUSAL
from dbops.engine.audit.chain import hash_of
from dbops.engine.errors import Refused
from dbops.models import AuditEntry, AuditSegment, AuditText
from dbops.operations.audit_archive import archive_entries
from dbops.operations.audit_log import verify_log
from dbops.queries.audit.log import stored
from tests.app.factories import make_viewer
from tests.audit_guards import unguarded
from tests.said import numbers

from .test_command import DOCUMENT

pytestmark = pytest.mark.django_db
needs_triggers_dropped = pytest.mark.skipif(
    connection.vendor == "mysql", reason="its triggers are dropped only by ending the transaction of this test"
)


def days_ago(days: int) -> str:
    return f"{timezone.now() - timedelta(days=days):%Y-%m-%d}"


@pytest.fixture
def log() -> None:
    """Four entries of last year, which were written then, and two of today."""
    with unguarded():
        previous = current_head()
        for number in range(1, 7):
            entry = append(actor="olga", action="rebuild.requested", subject=f"replica-{number}", reason="é")
            entry.at -= timedelta(days=(400 - number) if number <= 4 else 0)
            entry.previous = previous.hash
            entry.hash = hash_of(entry.link)
            entry.save()
            _set_head(entry)
            previous = current_head()


def _set_head(entry: AuditEntry) -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE dbops_audithead SET sequence = %s, hash = %s", [entry.sequence, entry.hash])


def findings() -> list[str]:
    return [str(item) for item in verify_log(stored(), actor="olga")[0]]


@needs_triggers_dropped
@pytest.mark.usefixtures("log")
def test_archive_and_export_together_contain_the_whole_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("audit", "export")
    before = capsys.readouterr().out.splitlines()[:6]
    call_command("audit", "archive", "--before", days_ago(200), "--to", str(tmp_path))
    file = tmp_path / "audit-000000001-000000004.jsonl"
    assert f"Entries 1 to 4 are in {file}." in capsys.readouterr().out
    assert file.read_text().splitlines() == before[:4]
    assert file.stat().st_mode & 0o777 == 0o600

    assert AuditEntry.objects.order_by("sequence").first().sequence == 5  # type: ignore[union-attr]
    assert not AuditText.objects.filter(sequence__lte=4).exists()
    assert findings() == []
    found = AuditEntry.objects.get(action="audit.archived")
    assert (found.detail["first"], found.detail["last"], found.detail["file"]) == (1, 4, file.name)
    assert found.detail["file_hash"] == hashlib.sha256(file.read_bytes()).hexdigest()

    call_command("audit", "export")
    whole = tmp_path / "all.jsonl"
    whole.write_text(file.read_text() + capsys.readouterr().out)
    script = tmp_path / "verify.py"
    script.write_text(DOCUMENT.read_text().split("```python\n")[1].split("```")[0])
    first = json.loads(before[1])
    words = [sys.executable, str(script), str(whole), "2", first["hash"]]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, "as written" in done.stdout) == (0, True), done.stdout


@needs_triggers_dropped
@pytest.mark.usefixtures("log")
def test_archive_continues_with_a_second_segment(tmp_path: Path) -> None:
    first = archive_entries(actor="olga", before=timezone.now() - timedelta(days=397.5), folder=tmp_path)
    second = archive_entries(actor="olga", before=timezone.now() - timedelta(days=100), folder=tmp_path)
    assert [(item.first, item.last) for item in (first, second)] == [(1, 2), (3, 4)]
    assert (second.previous, current_anchor()) == (first.hash, second.anchor)
    assert findings() == []
    with pytest.raises(Refused) as refused:
        archive_entries(actor="olga", before=timezone.now() - timedelta(days=100), folder=tmp_path)
    assert refused.value.code == "audit.nothing_to_archive"


@needs_triggers_dropped
@pytest.mark.usefixtures("log")
def test_database_refuses_to_delete_entries_that_are_not_archived(tmp_path: Path) -> None:
    archive_entries(actor="olga", before=timezone.now() - timedelta(days=100), folder=tmp_path)
    for act in (
        lambda: AuditEntry.objects.filter(sequence=5).delete(),
        lambda: AuditText.objects.filter(sequence=5).delete(),
        lambda: AuditSegment.objects.update(last=5),
        lambda: AuditSegment.objects.all().delete(),
    ):
        with pytest.raises(DatabaseError, match=REFUSAL), transaction.atomic():
            act()
    assert findings() == []


@needs_triggers_dropped
@pytest.mark.usefixtures("log")
def test_verify_finds_entries_removed_behind_a_forged_segment(tmp_path: Path) -> None:
    entry = AuditEntry.objects.get(sequence=5)
    AuditSegment.objects.create(
        first=1,
        last=5,
        previous="0" * 64,
        hash=entry.hash,
        file_name="none",
        file_hash="0" * 64,
        at=timezone.now(),
    )
    AuditEntry.objects.filter(sequence__lte=5).delete()
    [finding] = findings()
    assert finding.startswith("removed:")
    assert numbers(finding) == [1, 5]


@needs_triggers_dropped
@pytest.mark.usefixtures("log")
def test_archive_refuses_entries_that_were_changed(tmp_path: Path) -> None:
    with unguarded():
        AuditEntry.objects.filter(sequence=2).update(actor="mallory")
    with pytest.raises(CommandError, match=r"\[audit\.not_as_written\].*entry 2\b"):
        call_command("audit", "archive", "--before", days_ago(200), "--to", str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    assert AuditEntry.objects.filter(sequence__lte=4).count() == 4


@needs_triggers_dropped
@pytest.mark.usefixtures("log")
def test_archive_changes_nothing_when_folder_is_missing_or_day_too_recent(tmp_path: Path) -> None:
    count = AuditEntry.objects.count()
    with pytest.raises(CommandError, match="No such file"):
        call_command("audit", "archive", "--before", days_ago(200), "--to", str(tmp_path / "none"))
    with pytest.raises(CommandError, match="90 days"):
        call_command("audit", "archive", "--before", days_ago(30), "--to", str(tmp_path))
    assert AuditEntry.objects.count() == count
    assert not AuditSegment.objects.exists()


@needs_triggers_dropped
@pytest.mark.usefixtures("log")
def test_archived_entry_page_names_its_file(tmp_path: Path, client: Client) -> None:
    archive_entries(actor="olga", before=timezone.now() - timedelta(days=100), folder=tmp_path)
    client.force_login(make_viewer())
    answer = client.get("/audit/3/")
    assert answer.status_code == 404
    assert "audit-000000001-000000004.jsonl" in answer.content.decode()
