"""The steps of a clone over fakes: what is made on the donor and by whom it is taken away, whatever died in between."""

from typing import Any

import pytest

from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.ports import JobState, JobStatus
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.rebuilds.steps.copy.clone import Clone, OpenDonor, close_donor
from dbops.engine.rebuilds.steps.finish.sweep import CleanUpPlace, left_over, needs_sweep, sweep
from dbops.engine.rebuilds.steps.run import Run
from tests.engine.by_name import build_plan
from tests.engine.rebuilds.test_clone import POLLS, world
from tests.engine.runs import RecordedJournal, make_run
from tests.fakes import FakeClock, FakeDatabase, FakeJobs, running, server_error

#: What servers, tools and scripts say or get: recorded, not worded here.
EXPIRES = "PASSWORD EXPIRE INTERVAL 2 DAY"
UNINSTALLS = "UNINSTALL PLUGIN clone"

USER = "dbops-0123456789abcdef"
PASSWORD = "secret-of-the-server"  # noqa: S105


class Donor(FakeDatabase):
    """A donor's server: the plugin and the accounts that it has."""

    def __init__(self, *, plugin: bool = False, busy: int = 0, logs: int = 0) -> None:
        super().__init__()
        self.plugin, self.busy, self.users, self.logs = plugin, busy, set[str](), logs

    def query(self, sql: str, parameters: Any = ()) -> list[dict[str, Any]]:
        if sql.startswith(("SHOW REPLICA", "SELECT @@read_only")):
            return []
        self.executed.append((sql, tuple(parameters)))
        if self.down:
            raise self.down
        if "sql_log_bin" in sql:
            return [{"logs": self.logs}]
        if "ssl_cert" in sql:
            return [{"Variable_name": "ssl_cert", "Value": "server-cert.pem"}]
        if "information_schema.PLUGINS" in sql:
            return [{"status": "ACTIVE"}] if self.plugin else []
        if "PROCESSLIST" in sql:
            self.busy -= 1
            return [{"id": 7}] if self.busy >= 0 else []
        if sql.startswith("ALTER USER"):
            return [{"user": USER, "host": "%", "generated password": PASSWORD}]
        return []

    def execute(self, sql: str, parameters: Any = ()) -> None:
        self.query(sql, parameters)
        if sql.startswith("INSTALL"):
            self.plugin = True
        if sql.startswith("UNINSTALL"):
            self.plugin = False
        if sql.startswith("CREATE USER"):
            self.users.add(USER)
        if sql.startswith("DROP USER"):
            self.users.discard(USER)


def plan() -> Plan:
    return build_plan(world(), "clone")


def run_of(donor: FakeDatabase, jobs: FakeJobs | None = None, **checkpoint: Any) -> Run:
    jobs = jobs or FakeJobs(run_id="0123456789abcdef")
    given = {"new_identity": "1:2", "donor_tls": True, "donor_plugin_is_ours": True, **checkpoint}
    return make_run(
        plan(), jobs, source=donor, target=FakeDatabase(), journal=RecordedJournal(), clock=FakeClock(), **given
    )


def opened(donor: Donor, jobs: FakeJobs | None = None) -> tuple[Run, FakeJobs]:
    jobs = jobs or FakeJobs(run_id="0123456789abcdef")
    jobs.expect(".*", "")
    run = make_run(plan(), jobs, source=donor, target=FakeDatabase(), journal=RecordedJournal(), clock=FakeClock())
    return run, jobs


def test_open_donor_tries_the_account_from_the_target_before_destruction() -> None:
    donor = Donor()
    run, jobs = opened(donor)
    assert OpenDonor().advance(run).done
    assert donor.plugin
    assert donor.users == {USER}
    assert run.checkpoint["donor_plugin_is_ours"]
    [create] = [sql for sql in donor.statements if sql.startswith("CREATE USER")]
    assert "REQUIRE SSL" in create
    assert EXPIRES in create
    assert PASSWORD not in str(run.checkpoint)
    tried = jobs.acts[-1]
    assert PASSWORD in tried.stdin.decode()
    assert PASSWORD not in str(tried.arguments)


def test_close_donor_keeps_a_plugin_that_existed() -> None:
    donor = Donor(plugin=True)
    run, _ = opened(donor)
    assert OpenDonor().advance(run).done
    assert close_donor(run)
    assert donor.plugin
    assert donor.users == set()


def test_close_donor_removes_its_plugin_after_a_driver_died() -> None:
    donor = Donor()
    run, _ = opened(donor)
    OpenDonor().advance(run)
    after, _ = opened(donor)  # the plugin is there by now: the memory says whose it is
    after.checkpoint.update(run.checkpoint)
    OpenDonor().advance(after)
    assert close_donor(after)
    assert not donor.plugin


def test_statements_that_would_be_logged_are_not_made() -> None:
    donor = Donor(logs=1)
    run, _ = opened(donor)
    with pytest.raises(RemoteFailure) as caught:
        OpenDonor().advance(run)
    assert caught.value.code == "clone.account"
    assert donor.users == set()
    assert not needs_sweep(run)


def test_open_donor_names_a_missing_privilege() -> None:
    class Poor(Donor):
        def execute(self, sql: str, parameters: Any = ()) -> None:
            if sql.startswith("CREATE USER"):
                raise server_error(1227, "Access denied; you need CREATE USER")
            super().execute(sql, parameters)

    run, _ = opened(Poor())
    with pytest.raises(RemoteFailure) as caught:
        OpenDonor().advance(run)
    assert caught.value.code == "clone.account"
    assert "1227" in caught.value.cause
    assert needs_sweep(run)  # the plugin


def test_running_clone_keeps_its_password() -> None:
    """Its threads log in again with it: a second driver must not change it."""
    donor, jobs = Donor(), FakeJobs(run_id="0123456789abcdef")
    jobs.play("stream", running())
    run = run_of(donor, jobs)
    Clone().start(run)
    Clone().start(run)
    assert len([sql for sql in donor.statements if sql.startswith("ALTER USER")]) == 1
    job = jobs.job("stream")
    assert PASSWORD in job.secrets["clone.sql"]
    assert PASSWORD not in " ".join(job.arguments)
    assert any(UNINSTALLS in word for word in job.arguments)


def test_clone_progress_never_decreases() -> None:
    run, seen = run_of(Donor()), []
    assert isinstance(run.journal, RecordedJournal)
    run.checkpoint["stream.began"] = 0.0
    for poll in POLLS:
        Clone().follow(run, JobState(JobStatus.RUNNING, tails={"progress": poll}))
        seen.append(run.journal.known["percent"])
    Clone().follow(run, JobState(JobStatus.RUNNING, tails={"progress": POLLS[0], "phase": "restart"}))
    assert [*seen, run.journal.known["percent"]] == sorted([*seen, run.journal.known["percent"]])
    assert run.checkpoint["stream.stage"] == "restart"


def test_finished_clone_is_saved_and_closes_the_donor() -> None:
    donor = Donor(plugin=True)
    run = run_of(donor, donor_opened=True, donor_closed=False)
    tails = {
        "progress": POLLS[-1],
        "clone": "ERROR 3707 (HY000) at line 3: x",
        "outcome": "state=Completed\nerror=0\ngtid=a:1-5\n",
    }
    state = JobState(JobStatus.ENDED, 0, stages={"clone": 0, "server": 0}, tails=tails, started_at=1.0, ended_at=3.0)
    outcome = Clone().finish(run, state)
    assert outcome.done
    assert (run.checkpoint["position"]["gtid"], run.checkpoint["loaded"]) == ("a:1-5", True)
    assert run.checkpoint["donor_closed"]
    assert not donor.plugin


def test_close_donor_ends_sessions_before_removing_the_plugin() -> None:
    donor = Donor(plugin=True, busy=1)
    run = run_of(donor, donor_opened=True, donor_closed=False)
    assert not close_donor(run)
    assert donor.plugin
    assert "KILL 7" in donor.statements
    assert close_donor(run)
    assert not donor.plugin
    assert close_donor(run)  # any number of times


def test_sweep_cleans_a_donor_that_was_unreachable() -> None:
    donor = Donor(plugin=True)
    donor.users.add(USER)
    run = run_of(donor, donor_opened=True, donor_closed=False, source_differs="")
    donor.down = Unreachable("mysql.unreachable", "Talking", cause="2003")
    assert left_over(run.checkpoint) == [CleanUpPlace.SOURCE_SERVER]
    assert [error.code for error in sweep(run, ())] == ["mysql.unreachable"]
    assert needs_sweep(run)
    donor.down = None
    assert sweep(run, ()) == []
    assert not needs_sweep(run)
    assert (donor.users, donor.plugin) == (set(), False)
