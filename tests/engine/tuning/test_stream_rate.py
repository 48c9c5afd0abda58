"""How slow a stream may be made before the source's redo log is overwritten unread."""

from hypothesis import given
from hypothesis import strategies as st

from dbops.engine.tuning.stream_rate import LOOKS, MARGIN, SLOWEST, USABLE, AutoThrottle, floor_of, throttle

GIB, MIB = 1024**3, 1024**2
SIZES = st.integers(1, 10**14)
RATES = st.floats(1, 1e10)


def floor(
    size: int | None = 1000 * GIB, capacity: int | None = 10 * GIB, redo: float | None = 1 * MIB, parallel: int = 4
) -> int:
    return floor_of(bytes_to_copy=size, redo_capacity_bytes=capacity, redo_bytes_per_second=redo, parallel=parallel)


def test_stream_floor_fits_small_data_into_half_the_redo_log() -> None:
    # 10 GiB of redo at 1 MiB/s: 5120 s for half of it
    assert floor(size=1 * GIB) == round(GIB / 5120 + 0.5)


def test_large_data_may_be_as_slow_as_the_redo_copier_keeps_up() -> None:
    assert floor() == 2 * MIB * 5


def test_stream_floor_is_the_minimum_without_redo_writes() -> None:
    assert [floor(redo=None), floor(redo=0.0), floor(capacity=None)] == [SLOWEST] * 3


def test_stream_floor_follows_the_redo_rate_when_the_size_is_unknown() -> None:
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


LIMIT = 100.0


class Looks:
    """A brake that is looked at every three seconds."""

    def __init__(self, moving: float | None = 400 * MIB, floor: int = 10 * MIB) -> None:
        self.state, self.moving, self.floor, self.now = AutoThrottle(), moving, floor, 0.0

    def see(self, latency_ms: float, times: int = 1) -> int | None:
        for _ in range(times):
            self.now += 3.0
            self.state = throttle(
                self.state, latency_ms=latency_ms, limit_ms=LIMIT, now=self.now, moving=self.moving, floor=self.floor
            )
        return self.state.rate


def test_brake_ignores_a_single_slow_answer() -> None:
    looks = Looks()
    looks.see(5, 5)
    assert looks.see(5000) is None
    assert looks.see(5, 10) is None


def test_servers_that_answer_slowly_halve_the_rate_step_by_step_down_to_the_floor() -> None:
    looks = Looks()
    assert looks.see(500, LOOKS) == 200 * MIB
    assert looks.see(500, LOOKS - 1) == 200 * MIB, "each step is judged by what the servers say under it"
    assert looks.see(500) == 100 * MIB
    assert looks.see(500, 20 * LOOKS) == 10 * MIB


def test_brake_accelerates_after_half_a_minute_of_calm() -> None:
    looks = Looks()
    looks.see(500, LOOKS)
    assert looks.see(5, LOOKS + 9) == 200 * MIB
    assert looks.see(5, 2) == 300 * MIB
    assert looks.see(5, 12) is None, "as fast as it was"
    assert looks.state.free is None


def test_brake_keeps_the_rate_between_limit_and_half_of_it() -> None:
    looks = Looks()
    looks.see(500, LOOKS)
    assert looks.see(70, 100) == 200 * MIB


def test_brake_ignores_a_stream_of_unknown_speed() -> None:
    assert Looks(moving=None).see(500, 50) is None


@given(st.lists(st.floats(0, 10_000), max_size=200), st.integers(1, 10**9), st.floats(1, 1e10))
def test_brake_stays_between_floor_and_stream_rate(latencies: list[float], lowest: int, moving: float) -> None:
    looks = Looks(moving, lowest)
    for latency in latencies:
        rate = looks.see(latency)
        assert rate is None or rate >= lowest
        assert rate is None or rate <= max(moving, lowest)
