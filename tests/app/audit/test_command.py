"""`manage.py audit`, and the outsider's script of the document, which must say the same."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection

from dbops.audit.log import append, current_head
from dbops.audit.triggers import missing_triggers
from dbops.engine.audit.chain import Tampering
from dbops.models import AuditEntry
from tests.audit_guards import unguarded
from tests.said import numbers

pytestmark = pytest.mark.django_db
DOCUMENT = Path(__file__).parents[3] / "docs" / "how-to" / "audit.md"
Lines = list[dict[str, Any]]


def findings_of(printed: str) -> list[str]:
    """Return the lines that `audit verify` printed of findings: each begins with its kind."""
    return [line for line in printed.splitlines() if line.partition(":")[0] in set(Tampering)]


def write(count: int = 5) -> None:
    for number in range(1, count + 1):
        append(
            actor="olga",
            action="rebuild.requested",
            subject=f"replica-{number}",
            reason="é",
            detail={"size": 1.0, "ratio": 0.5},
        )


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """The script from the document."""
    found = tmp_path / "verify.py"
    found.write_text(DOCUMENT.read_text().split("```python\n")[1].split("```")[0])
    assert 25 <= found.read_text().count("\n") <= 35
    return found


@pytest.fixture
def exported(capsys: pytest.CaptureFixture[str]) -> Lines:
    write()
    call_command("audit", "export")
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_verify_reports_a_missing_trigger(capsys: pytest.CaptureFixture[str]) -> None:
    if connection.vendor == "mysql":
        pytest.skip("its triggers are dropped only by ending the transaction of this test")
    write()
    assert missing_triggers() == []
    with connection.cursor() as cursor:
        on = " ON dbops_auditentry" if connection.vendor == "postgresql" else ""
        cursor.execute(f"DROP TRIGGER dbops_auditentry_delete{on}")
    with pytest.raises(SystemExit):
        call_command("audit", "verify")
    [found] = findings_of(capsys.readouterr().out)
    assert found.startswith("unguarded: ")
    assert ("DELETE" in found, "dbops_auditentry" in found) == (True, True)
    with unguarded():
        assert len(missing_triggers()) == (10 if connection.vendor == "mysql" else 15)


def outsider(script: Path, lines: Lines, *head: str) -> tuple[int, str]:
    export = script.with_name("audit.jsonl")
    export.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = subprocess.run([sys.executable, script, export, *head], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_outsider_script_accepts_an_untouched_export(script: Path, exported: Lines) -> None:
    # five, and the entry of the export itself
    assert [line["sequence"] for line in exported] == [1, 2, 3, 4, 5, 6]
    head = str(current_head()).split()
    status, text = outsider(script, exported, *head)
    assert (status, numbers(text)[0], " ".join(head) in text) == (0, 6, True)


def swap(lines: Lines) -> None:
    lines[2], lines[3] = lines[3], lines[2]


@pytest.mark.parametrize(
    ("tamper", "finding"),
    [
        (lambda lines: lines[2].update(actor="mallory"), "entry 3: changed"),
        (lambda lines: lines[2].update(hash="0" * 64), "entry 3: changed"),
        (lambda lines: lines.pop(2), "entry 4: removed before it: 3 to 3"),
        (lambda lines: lines.insert(2, lines[1]), "entry 2: inserted or reordered"),
        (swap, "entry 3: inserted or reordered"),
        (lambda lines: lines.pop(), "entry 6: truncated"),
    ],
)
def test_outsider_script_finds_each_tampering(
    script: Path, exported: Lines, tamper: Callable[[Lines], Any], finding: str
) -> None:
    tamper(exported)
    status, text = outsider(script, exported, *str(current_head()).split())
    assert status == 1
    assert finding in text


def test_verify_prints_the_head_and_is_in_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    write(3)
    head = str(current_head())
    call_command("audit", "verify")
    found = capsys.readouterr().out
    assert findings_of(found) == []
    assert (numbers(found)[0], head in found) == (3, True)
    entry = AuditEntry.objects.get(action="audit.verified")
    assert (entry.detail["head"], entry.detail["findings"]) == (head, [])
    call_command("audit", "head")
    assert capsys.readouterr().out.split() == ["4", entry.hash]


def test_verify_ends_with_status_1_and_names_the_entry(capsys: pytest.CaptureFixture[str]) -> None:
    if connection.vendor == "mysql":
        pytest.skip("taking its triggers away would end this test's transaction")
    write(4)
    with unguarded():
        AuditEntry.objects.filter(sequence=2).delete()
    with pytest.raises(SystemExit) as ended:
        call_command("audit", "verify")
    assert ended.value.code == 1
    [found] = findings_of(capsys.readouterr().out)
    assert (found.partition(":")[0], numbers(found)) == ("removed", [2])


def test_verify_compares_with_kept_heads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(2)
    kept = tmp_path / "heads"
    kept.write_text(f"2026-11-22T09:00:00Z {current_head()}\n2026-11-22T10:00:00Z 9 {'a' * 64}\n")
    with pytest.raises(SystemExit):
        call_command("audit", "verify", "--heads", str(kept))
    [found] = findings_of(capsys.readouterr().out)
    assert (found.partition(":")[0], numbers(found)[:2]) == ("truncated", [2, 9])


def test_export_applies_the_filter(capsys: pytest.CaptureFixture[str]) -> None:
    write(3)
    call_command("audit", "export", "--subject", "replica-2", "--format", "csv", "--since", "2020-01-01")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert "replica-2" in lines[1]
