"""Tables of engines that a physical backup has, locks or lacks."""

import pytest

from dbops.engine.states import Severity
from tests.engine.builders import inputs, source_with
from tests.engine.by_name import run_checks

OK, WARNING, REFUSAL = Severity.OK, Severity.WARNING, Severity.REFUSAL


@pytest.mark.parametrize(
    ("flavor", "engines", "expected"),
    [
        ("mariadb", {"MyISAM": 3, "Aria": 1}, WARNING),
        ("mariadb", {"ROCKSDB": 2}, OK),
        ("mariadb", {"SPIDER": 2, "BLACKHOLE": 1}, OK),
        ("mariadb", {"TokuDB": 2, "MyISAM": 1}, REFUSAL),
        ("mariadb", {"CONNECT": 1}, REFUSAL),
        ("mysql", {"ROCKSDB": 2}, REFUSAL),
        ("mysql", {"TokuDB": 2}, REFUSAL),
        ("mysql", {"ndbcluster": 2}, REFUSAL),
    ],
)
def test_engines_that_no_tool_copies_are_refused(flavor: str, engines: dict[str, int], expected: Severity) -> None:
    version = "8.4.10" if flavor == "mysql" else "10.11.19"
    of = inputs(source=source_with(flavor=flavor, version=version, foreign_engines=engines))
    for method, wanted in (("xbstream", expected), ("archive", OK if expected is WARNING else expected)):
        assert {one.severity for one in run_checks(of, method) if one.code == "source.engines"} == {wanted}
    assert [one for one in run_checks(of, "dump") if one.code == "source.engines"] == []
