"""What ended restore tests say of a backup: which of several counts, and which say nothing."""

from datetime import UTC, datetime, timedelta

import pytest

from dbops.engine.backups.restore_test_ends import IN_DOUBT, OF_THE_BACKUP, RestoreTestEnd, last_conclusive
from dbops.engine.restore_tests.due import OF_THE_PLACE, is_inconclusive
from dbops.engine.restore_tests.result import FAILURES

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def counted(*codes: str) -> str | None:
    """Return the code that counts after restore tests of one run ended with ``codes``, oldest first; an empty code is a success."""
    ends = [RestoreTestEnd(7, not code, NOW + timedelta(hours=hour), code) for hour, code in enumerate(codes)]
    found = last_conclusive(ends).get(7)
    return found.code if found else None


@pytest.mark.parametrize(
    ("codes", "counts"),
    [
        pytest.param([], None, id="never tested"),
        pytest.param(["restore_test.damaged", ""], "", id="a later success replaces an earlier failure"),
        pytest.param(["", "restore_test.tables"], "restore_test.tables", id="a file may go bad later"),
        pytest.param(
            ["restore_test.damaged", "restore_test.transport"],
            "restore_test.damaged",
            id="a link that broke does not make it good",
        ),
        pytest.param(["", "ssh.unreachable"], "", id="nor bad"),
        pytest.param(["restore_test.space"], None, id="of the host alone"),
        pytest.param(["restore_test.not_removed"], None, id="of what is left alone"),
        pytest.param(["restore_test.refused"], None, id="nothing was read"),
        pytest.param(["bug"], None, id="of dbops alone"),
        pytest.param(["restore_test.start"], "restore_test.start", id="a doubt"),
        pytest.param(["", "restore_test.start"], "", id="a doubt does not replace what is clear"),
        pytest.param(
            ["restore_test.prepare", "restore_test.start"],
            "restore_test.prepare",
            id="a doubt does not clear what is bad",
        ),
        pytest.param(
            ["restore_test.start", "restore_test.unpack"], "restore_test.unpack", id="what is clear replaces a doubt"
        ),
    ],
)
def test_last_conclusive_picks_the_deciding_test(codes: list[str], counts: str | None) -> None:
    assert counted(*codes) == counts


def test_last_conclusive_separates_runs() -> None:
    ends = [RestoreTestEnd(7, True, NOW), RestoreTestEnd(8, False, NOW, "restore_test.tables")]
    assert last_conclusive(ends) == {7: ends[0], 8: ends[1]}


def test_failure_codes_each_belong_to_backup_doubt_or_place() -> None:
    assert not (OF_THE_BACKUP | IN_DOUBT) & OF_THE_PLACE
    assert not [code for code in OF_THE_BACKUP | IN_DOUBT if is_inconclusive(code)]
    sides = {kind for kind in FAILURES if f"restore_test.{kind}" not in OF_THE_BACKUP | IN_DOUBT | OF_THE_PLACE}
    assert sides == {"not_removed"}, "a new way to fail: is it of the backup, in doubt, or of the place?"
