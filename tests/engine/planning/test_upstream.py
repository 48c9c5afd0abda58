"""A target that follows an intermediate replica goes back to it, or the plan says why not."""

from dataclasses import replace
from typing import Any, cast

import pytest

from dbops.engine.errors import RemoteFailure
from dbops.engine.facts.instance import ProbeProblem
from dbops.engine.facts.stored_data import StoredData
from dbops.engine.planning.inputs import PlanInputs
from dbops.engine.planning.upstream import intermediate_of
from dbops.engine.ports import CommandResult
from dbops.engine.rebuilds.kept_replication import Fate
from dbops.engine.rebuilds.steps.preflight.account_trial import sources_of, try_replication_account
from dbops.engine.rebuilds.steps.preflight.live_check import differences, is_upstream_away
from dbops.engine.rebuilds.steps.run import Run
from dbops.engine.states import Level, Severity
from tests.engine.builders import facts, inputs, link, member, primary_server, server, source_with, target_with
from tests.engine.by_name import build_plan, run_checks
from tests.engine.runs import RecordedJournal, make_run
from tests.fakes import FakeClock, FakeDatabase, FakeJobs

OPTIONS = {"MASTER_SSL": "1", "MASTER_DELAY": "60"}
BETWEEN = "10.0.0.12"


def chained(source: Any = None, host: str = BETWEEN, **more: Any) -> PlanInputs:
    """Return inputs whose target follows the backup instance, which is also the source of the copy."""
    target = target_with(replication=(link(host, options=OPTIONS, **more),))
    return inputs(target=target, source=source) if source else inputs(target=target)


def severities(of: PlanInputs) -> set[Severity]:
    return {finding.severity for finding in run_checks(of) if finding.code == "target.chained"}


def fate_of_source(of: PlanInputs) -> Fate:
    kept = build_plan(of).replication
    assert kept
    [line] = [one for one in kept.settings if one.name == "source"]
    return line.fate


def test_target_goes_back_to_a_healthy_intermediate_replica() -> None:
    of = chained()
    plan = build_plan(of)
    assert plan.upstream
    assert plan.upstream.name == "backup-1"
    assert severities(of) == {Severity.OK}
    assert fate_of_source(of) is Fate.KEPT
    [verify] = [step for step in plan.steps if step.name == "verify"]
    [change] = [command.text for command in verify.commands if BETWEEN in command.text]
    assert "MASTER_DELAY = 60" in change
    assert [party.name for party in sources_of(plan)] == ["backup-1", "primary-1"]


def test_target_of_the_primary_stays_there() -> None:
    for one in (inputs(), inputs(target=target_with(replication=(link("proxy", source_server_id=11),)))):
        assert intermediate_of(one) is None
        assert build_plan(one).upstream is None


def test_intermediate_replica_behind_another_name_is_known_by_its_server_id() -> None:
    of = chained(host="proxy", source_server_id=12)
    plan = build_plan(of)
    assert plan.upstream
    assert (plan.upstream.address, fate_of_source(of)) == (BETWEEN, Fate.CHANGED)


@pytest.mark.parametrize(
    "of",
    [
        chained(host="10.9.9.9"),
        chained(source_with(read_only=False)),
        chained(source_with(log_replica_updates=False)),
        chained(source_with(log_bin=False)),
        chained(source_with(gtid_enabled=False)),
        chained(source_with(replication=())),
        chained(source_with(replication=(link("10.0.0.13"),))),
        chained(source_with(replication=(link(), link(channel="second")))),
        chained(source_with(replication=(link(sql_running="No"),))),
        chained(source_with(replication=(link(lag_seconds=None),))),
        chained(source_with(replication=(link(lag_seconds=61.0),))),
        chained(source_with(replication=(link(filters={"Replicate_Do_DB": "a"}),))),
        chained(source_with(replication=(link(options={"IGNORE_DOMAIN_IDS": "7"}),))),
        chained(source_with(stored=StoredData(binlog_filters={"binlog_do_db": "a"}))),
        replace(
            chained(),
            primary=member("primary-1", "primary", 11, facts=facts(11, server=primary_server(gtid_enabled=False))),
        ),
    ],
)
def test_target_stays_at_the_primary_where_the_intermediate_replica_is_unfit(of: PlanInputs) -> None:
    assert severities(of) == {Severity.WARNING}
    between = intermediate_of(of)
    assert between
    assert between.problem
    assert build_plan(of).upstream is None
    assert fate_of_source(of) is Fate.CHANGED


def test_intermediate_replica_of_another_cluster_or_without_answer_is_unfit() -> None:
    silent = facts(14, server=None, server_problem=ProbeProblem("mysql.unreachable", "gone"))
    for other in (
        member("replica-2", "replica", 14, address="10.0.0.14", cluster="other", facts=facts(14, server=server(14))),
        member("replica-2", "replica", 14, address="10.0.0.14", facts=silent),
    ):
        of = chained(host="10.0.0.14")
        between = intermediate_of(replace(of, members=(*of.members, other)))
        assert between
        assert between.returns_to is None


def test_another_machine_in_its_place_is_refused_before_anything_is_stopped() -> None:
    before = build_plan(chained())
    assert before.upstream
    assert differences(before, before) == []
    for other in (replace(before.upstream, server_id=99), replace(before.upstream, machine="other"), None):
        assert len(differences(before, replace(before, upstream=other))) == 1


def behind_another(*, source: Any = None, **more: Any) -> PlanInputs:
    """Return inputs whose target follows a third server, with ``more`` facts of it."""
    third = member("replica-2", "replica", 14, address="10.0.0.14", facts=facts(14, server=server(14, **more)))
    of = chained(source, host="10.0.0.14")
    return replace(of, members=(*of.members, third))


AWAY = {
    "lags": {"replication": (link(lag_seconds=61.0),)},
    "restarts": {"replication": (link(io_running="Connecting", lag_seconds=None),)},
}


@pytest.mark.parametrize("name", AWAY)
def test_intermediate_replica_that_is_unfit_for_now_stops_no_rebuild(name: str) -> None:
    before, now = build_plan(behind_another()), build_plan(behind_another(**AWAY[name]))
    assert before.upstream
    assert (now.upstream, is_upstream_away(before, now)) == (None, True)
    assert differences(before, now) == []


def test_any_other_difference_counts_while_the_intermediate_replica_is_unfit() -> None:
    before, now = build_plan(behind_another()), build_plan(behind_another(**AWAY["lags"]))
    assert differences(before, replace(now, primary=replace(now.primary, server_id=99)))
    assert differences(before, replace(now, old_data="removed_first"))
    assert now.replication
    assert differences(before, replace(now, replication=replace(now.replication, options={})))
    filtered = source_with(replication=(link(filters={"Replicate_Do_DB": "a"}),))
    assert differences(before, build_plan(behind_another(source=filtered, **AWAY["lags"])))
    # planned without it, it does not come back on its own
    assert differences(now, before)


@pytest.mark.parametrize("host", ["10.0.0.11", "10.9.9.9"])
def test_target_that_follows_another_server_since_is_refused(host: str) -> None:
    before = build_plan(behind_another())
    of = behind_another()
    now = build_plan(replace(of, target=target_with(replication=(link(host, options=OPTIONS),))))
    assert (now.upstream, is_upstream_away(before, now)) == (None, False)
    assert differences(before, now)


def trial(*refused: str) -> Run:
    """Try the replication account for a target behind a third server; the servers ``refused`` do not take it."""
    jobs = FakeJobs()
    for address in refused:
        jobs.expect(address.replace(".", r"\."), CommandResult(1, "", "ERROR 1045: Access denied"))
    database = FakeDatabase()
    database.expect("plugin_dir", [{"place": "/usr/lib/plugin"}])
    plan = build_plan(behind_another())
    run = make_run(plan, jobs, source=database, target=database, journal=Levels(), clock=FakeClock())
    try_replication_account(run)
    return run


class Levels(RecordedJournal):
    """A journal that keeps the levels of its lines."""

    def say(self, text: str, *, level: Level = Level.INFO, host: str = "") -> None:
        self.lines.append(level)


def test_intermediate_replica_that_refuses_the_account_is_a_warning() -> None:
    assert cast("Levels", trial().journal).lines == [Level.INFO]
    assert cast("Levels", trial("10.0.0.14").journal).lines == [Level.WARNING, Level.INFO]


@pytest.mark.parametrize("needed", ["10.0.0.11", BETWEEN])
def test_source_or_primary_that_refuses_the_account_ends_the_rebuild(needed: str) -> None:
    with pytest.raises(RemoteFailure) as error:
        trial(needed)
    assert error.value.code == "replication.account"


def test_server_from_before_an_incomplete_copy_counts() -> None:
    before = build_plan(chained()).replication
    assert before
    now = replace(inputs(target=target_with(replication=(link(options=OPTIONS),))), unrestored=before)
    plan = build_plan(now)
    assert plan.upstream
    assert (plan.upstream.name, fate_of_source(now)) == ("backup-1", Fate.KEPT)
    older = replace(now, unrestored=replace(before, followed=""))
    assert build_plan(older).upstream is None
