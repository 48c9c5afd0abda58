"""What protects the target's pages after a rebuild: its own option file decides, not the source's."""

from dataclasses import replace
from typing import Any

import pytest

from dbops.engine.facts.instance import PageWrites, ProbeProblem, RunTimeSetting
from dbops.engine.facts.storage import StorageFacts, StorageLayer
from dbops.engine.methods import METHODS
from dbops.engine.planning.checks.doublewrite import CHECKS, after_rebuild, doublewrite_is_known
from dbops.engine.planning.inputs import KnownInstance
from dbops.engine.states import Severity
from dbops.engine.tuning.doublewrite import Attestation, storage_of
from tests.engine.builders import datadir, facts, inputs, member, primary_server, server, source_with
from tests.engine.planning.test_checks import config

DISK = StorageLayer("nvme1n1", "disk", 0, 512, model="Amazon Elastic Block Store", identity="vol-1")
VOLUME = StorageFacts("ext4", 4096, "nvme1n1", 0, layers=(DISK,))
DIRECT = PageWrites("O_DIRECT")


def target(options: dict[str, str] | None = None, **of_server: Any) -> KnownInstance:
    running = server(13, page_writes=DIRECT, **of_server) if of_server else None
    problem = None if running else ProbeProblem("mysql.unreachable", "Connection refused")
    known = facts(
        13,
        server=running,
        server_problem=problem,
        config=config(13, options=options or {}),
        datadir=datadir(13, storage=VOLUME),
    )
    return member("replica-1", "replica", 13, facts=known)


@pytest.mark.parametrize(
    ("options", "of_server", "setting"),
    [
        ({}, {}, "ON"),
        ({"innodb_doublewrite": "OFF"}, {}, "OFF"),
        ({"skip_innodb_doublewrite": "1"}, {}, "OFF"),
        ({}, {"doublewrite": "OFF"}, "OFF"),  # from its command line
        ({"innodb_doublewrite": "OFF"}, {"doublewrite": "ON"}, "ON"),
        # a statement changed it since the start: the file decides at the next one
        ({}, {"doublewrite": "OFF", "set_at_run_time": (RunTimeSetting("innodb_doublewrite", "OFF", "ON"),)}, "ON"),
        (
            {"innodb_doublewrite": "OFF"},
            {"doublewrite": "ON", "set_at_run_time": (RunTimeSetting("innodb_doublewrite", "ON", "ON"),)},
            "OFF",
        ),
        (
            {},
            {
                "doublewrite": "ON",
                "set_at_run_time": (RunTimeSetting("innodb_doublewrite", "ON", None, "DETECT_ONLY"),),
            },
            "DETECT_ONLY",
        ),
    ],
)
def test_target_begins_with_its_own_setting(options: dict[str, str], of_server: dict[str, Any], setting: str) -> None:
    assert after_rebuild(target(options, **of_server)) == setting


def severity(of: KnownInstance, *, source: str = "ON", primary: str = "ON") -> Severity:
    first = member("primary-1", "primary", 11, facts=facts(11, server=primary_server(doublewrite=primary)))
    [found] = doublewrite_is_known(inputs(target=of, source=source_with(doublewrite=source), primary=first))
    return found.severity


def attested(of: KnownInstance) -> KnownInstance:
    return replace(of, attestation=Attestation("cloud", storage_of(of.facts)))


OFF = {"innodb_doublewrite": "OFF"}


def test_check_warns_of_a_target_without_doublewrite_and_without_a_reason() -> None:
    for of in (target(OFF), target(doublewrite="OFF"), target(doublewrite="DETECT_ONLY")):
        assert severity(of, source="OFF", primary="OFF") is Severity.WARNING
        assert severity(attested(of), source="OFF", primary="OFF") is Severity.OK
        other = replace(of, attestation=Attestation("cloud", "another disk"))
        assert severity(other, source="OFF", primary="OFF") is Severity.WARNING


def test_check_warns_when_source_or_primary_protect_in_another_way() -> None:
    assert severity(target(doublewrite="ON")) is Severity.OK
    assert severity(target(doublewrite="fast")) is Severity.OK
    assert severity(target(doublewrite="ON"), source="OFF") is Severity.WARNING
    assert severity(target(doublewrite="ON"), primary="OFF") is Severity.WARNING
    assert severity(attested(target(OFF)), source="OFF") is Severity.WARNING


def test_check_says_nothing_of_a_target_that_was_not_read() -> None:
    unread = facts(13, host=None, datadir=None, config=None, server=None)
    assert list(doublewrite_is_known(inputs(target=member("replica-1", "replica", 13, facts=unread)))) == []


def test_each_method_that_rebuilds_has_the_check() -> None:
    without = [method.name for method in METHODS.values() if method.checks and not set(CHECKS) <= set(method.checks)]
    assert without == []
