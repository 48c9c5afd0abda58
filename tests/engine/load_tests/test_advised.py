"""A/B tests as evidence of advice: the direction of the change, and whether the load exercises it."""

from typing import Any

import pytest

from dbops.engine.capacity.advice_inputs import AdviceKind
from dbops.engine.load_tests.advised import measured_change

LOSS = {"ratio": 0.8, "low": 0.75, "high": 0.9}
WRITES: dict[str, Any] = {"profile": "write-only"}
ROTATING: dict[str, Any] = {"profile": "rotating-schemas", "statements": ["SELECT 1"]}


def outcome(a: dict[str, str], b: dict[str, str], workload: dict[str, Any], *server: str) -> Any:
    arms = {"options_a": [[*one] for one in a.items()], "options_b": [[*one] for one in b.items()]}
    return measured_change(7, {"workload": workload, **arms}, server, LOSS)


@pytest.mark.parametrize(
    ("a", "b", "server", "low"),
    [
        ("ON", "OFF", (), 0.75),
        ("OFF", "ON", (), 1 / 0.9),
        ("0", "DETECT_AND_RECOVER", (), 1 / 0.9),
        ("ON", "DETECT_ONLY", (), None),
        (None, "OFF", ("--loose-innodb-doublewrite=ON",), 0.75),
        (None, "OFF", (), None),
        (None, "OFF", ("--innodb-doublewrite=OFF",), None),
    ],
)
def test_test_counts_in_the_advised_direction(
    a: str | None, b: str, server: tuple[str, ...], low: float | None
) -> None:
    first = {} if a is None else {"innodb_doublewrite": a}
    found = outcome(first, {"innodb_doublewrite": b}, WRITES, *server)
    assert (found and found.low) == (low and pytest.approx(low))
    assert found is None or (found.kind, found.test) == (AdviceKind.DOUBLEWRITE, 7)


CACHES = {"table_open_cache": "400", "table-definition-cache": "400"}


@pytest.mark.parametrize(
    ("a", "b", "ratio"),
    [
        (CACHES, {"table_open_cache": "9000", "table_definition_cache": "9K", "open_files_limit": "65535"}, 0.8),
        ({"table_open_cache": "9000"}, {"table_open_cache": "400"}, 1.25),
        (CACHES, {"table_open_cache": "9000", "table_definition_cache": "300"}, None),
        ({"table_open_cache_instances": "1"}, {"table_open_cache_instances": "8"}, None),
        ({"table_open_cache": "auto"}, {"table_open_cache": "400"}, None),
    ],
)
def test_settings_of_a_group_must_agree(a: dict[str, str], b: dict[str, str], ratio: float | None) -> None:
    found = outcome(a, b, ROTATING)
    assert (found and found.ratio) == (ratio and pytest.approx(ratio))


@pytest.mark.parametrize(
    ("setting", "workload", "counts"),
    [
        ("table_open_cache", {"profile": "read-write"}, False),
        ("table_open_cache", ROTATING, True),
        ("innodb_log_file_size", {"profile": "point-select"}, False),
        ("innodb_log_file_size", {"profile": "insert"}, True),
        ("innodb_log_file_size", ROTATING, False),
        (
            "innodb_log_file_size",
            ROTATING | {"statements": ["SELECT 1", "/* a */ -- b\n Insert INTO t VALUES (1)"]},
            True,
        ),
        ("innodb_purge_threads", {"profile": "insert"}, False),
        ("innodb_purge_threads", {"profile": "read-only"}, False),
        ("innodb_purge_threads", ROTATING | {"statements": ["UPDATE t SET a = 1"]}, True),
        ("innodb_sync_array_size", {"profile": "point-select"}, True),
    ],
)
def test_load_must_exercise_the_setting(setting: str, workload: dict[str, Any], *, counts: bool) -> None:
    assert (outcome({setting: "1"}, {setting: "16"}, workload) is not None) is counts
