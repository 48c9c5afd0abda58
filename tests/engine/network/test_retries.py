"""The wait before another attempt."""

import pytest

from dbops.engine.network.retries import wait_after


@pytest.mark.parametrize(
    ("first", "longest", "waits"), [(10, 900, [0, 10, 20, 40, 640, 900]), (5, 300, [0, 5, 10, 20, 300, 300])]
)
def test_wait_grows_to_its_limit(first: int, longest: int, waits: list[int]) -> None:
    assert [wait_after(count, first=first, longest=longest) for count in (0, 1, 2, 3, 7, 10**6)] == waits
