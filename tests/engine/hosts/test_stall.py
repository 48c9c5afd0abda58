"""Silence in each phase: logged once, then a stall."""

from dbops.engine.hosts.stall import StallLimits, check_stall, signs_of


def test_check_stall_never_stalls_while_counters_move() -> None:
    checkpoint = None
    for second in range(0, 100_000, 50):
        check = check_stall(checkpoint, signs_of({"unpack.read_bytes": second}, {}), second, StallLimits(60, 300))
        assert (check.is_stalled, check.needs_notice) == (False, False)
        checkpoint = check.checkpoint


def test_check_stall_counts_a_log_line_as_progress() -> None:
    first = check_stall(None, signs_of({"a": 1}, {"log": "one"}), 0, StallLimits(60, 300))
    second = check_stall(first.checkpoint, signs_of({"a": 1}, {"log": "two"}), 500, StallLimits(60, 300))
    assert second.silent_seconds == 0


def test_check_stall_logs_once_and_then_stalls() -> None:
    signs = signs_of({"a": 1}, {})
    check, noticed, ended = check_stall(None, signs, 0, StallLimits(60, 300)), [], []
    for second in range(10, 400, 10):
        check = check_stall(check.checkpoint, signs, second, StallLimits(60, 300))
        noticed += [second] if check.needs_notice else []
        ended += [second] if check.is_stalled else []
    assert noticed == [60]
    assert ended[0] == 300


def test_check_stall_never_stalls_without_a_limit() -> None:
    first = check_stall(None, "same", 0, StallLimits(60, 0))
    assert not check_stall(first.checkpoint, "same", 10**9, StallLimits(60, 0)).is_stalled


def test_check_stall_uses_the_limit_of_the_current_phase() -> None:
    first = check_stall(None, "same", 0, StallLimits(60, 300))
    assert not check_stall(first.checkpoint, "same", 400, StallLimits(60, 1800)).is_stalled
    assert check_stall(first.checkpoint, "same", 400, StallLimits(60, 300)).is_stalled
