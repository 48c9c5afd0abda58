"""How slow a stream may be made before the source's redo log is overwritten unread."""

from hypothesis import given
from hypothesis import strategies as st

from dbops.engine.throttling import MARGIN, SLOWEST, USABLE, floor_of

GIB, MIB = 1024**3, 1024**2
SIZES = st.integers(1, 10**14)
RATES = st.floats(1, 1e10)


def floor(
    size: int | None = 1000 * GIB, capacity: int | None = 10 * GIB, redo: float | None = 1 * MIB, parallel: int = 4
) -> int:
    return floor_of(bytes_to_copy=size, redo_capacity_bytes=capacity, redo_bytes_per_second=redo, parallel=parallel)


def test_small_data_may_be_as_slow_as_its_whole_copy_fits_into_half_of_the_redo_log() -> None:
    # 10 GiB of redo at 1 MiB/s: 5120 s for half of it
    assert floor(size=1 * GIB) == round(GIB / 5120 + 0.5)


def test_large_data_may_be_as_slow_as_the_redo_copier_keeps_up() -> None:
    assert floor() == 2 * MIB * 5


def test_where_nothing_is_written_or_known_only_a_stream_that_hardly_moves_is_too_slow() -> None:
    assert [floor(redo=None), floor(redo=0.0), floor(capacity=None)] == [SLOWEST] * 3


def test_of_unknown_size_the_redo_copier_has_to_keep_up() -> None:
    assert floor(size=None) == 2 * MIB * 5


@given(SIZES, st.integers(10**6, 10**12), RATES, st.integers(1, 16))
def test_at_the_floor_the_redo_log_outlasts_the_copy_or_the_copier_keeps_up(
    size: int, capacity: int, redo: float, parallel: int
) -> None:
    rate = floor(size, capacity, redo, parallel)
    written = size / rate * redo
    assert written <= capacity * USABLE * 1.001 or rate / (parallel + 1) >= redo * MARGIN * 0.999


@given(SIZES, SIZES, RATES, RATES)
def test_more_writes_or_less_redo_log_never_allow_a_slower_stream(one: int, two: int, slow: float, fast: float) -> None:
    slow, fast = sorted((slow, fast))
    small, large = sorted((one, two))
    assert floor(redo=slow) <= floor(redo=fast)
    assert floor(capacity=large) <= floor(capacity=small)
