"""Hosts with a real systemd: servers that are units, jobs in scopes, and a restart of sshd that ends all that is its own."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from dbops.drivers.jobs import HostJobs
from dbops.drivers.ssh import SshShell
from dbops.drivers.ssh_transport import SshAddress
from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.quiet import NOT_QUIET
from dbops.engine.hosts.jobs import reason_of
from dbops.engine.hosts.scripts import load
from dbops.engine.ports import JobState
from lab.hosts import LabHost
from tests.drivers.worlds import ENDED, RUNNING, wait_until
from tests.e2e.host_state import same_data_at_one_gtid
from tests.stack import Stack, running_stack
from tests.sudo_account import through_gates
from tests.sudo_account import why_not as why_no_account

from .systemd_host import SystemdHost, booted, why_not

pytestmark = [pytest.mark.services, pytest.mark.skipif(bool(why_not()), reason=why_not())]
TARGET, SOURCE = "replica-1", "backup-1"
UNIT = f"mariadb@{TARGET}.service"
OVERRIDE = f"{UNIT}.d/test.conf"
BAD_OPTION = "[Service]\nEnvironment=MYSQLD_OPTS=--no-such-option\n"
REFUSED, FAILED = 65, 70
START = load("common", "inside", "server_log", "service", "quiet_copy", "start")
SWAP = load("common", "inside", "service", "swap_datadir")
ROLLBACK = load("common", "service", "rollback")


def import_units(stack: Stack, *names: str) -> None:
    """Name the units of these instances in the inventory, in place of commands."""
    content = yaml.safe_load(stack.lab.fleet_yaml.read_text())
    for entry in content["clusters"][0]["instances"]:
        if entry["name"] in names:
            entry["service"] = {"systemd_unit": f"mariadb@{entry['name']}"}
    stack.lab.fleet_yaml.write_text(yaml.safe_dump(content, sort_keys=False, width=1000))
    stack.manage("fleet", "import", str(stack.lab.fleet_yaml))


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with running_stack(size="16M", web=False) as running:
        yield running


@pytest.fixture(scope="module")
def machine(stack: Stack) -> Iterator[SystemdHost]:
    with booted(stack.folder.parent, stack.lab.folder) as host:
        for name in (SOURCE, TARGET):
            host.take(stack.lab.host(name))
        import_units(stack, SOURCE, TARGET)
        yield host


@dataclass
class Work:
    """Runs the product's scripts on the target, as steps do."""

    machine: SystemdHost
    target: LabHost
    shell: SshShell
    option_file: str
    jobs: HostJobs = field(init=False)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.jobs = HostJobs(
            self.shell,
            work_dir=f"{self.target.folder}/jobs",
            instance_key="db",
            run_id="run-1",
            token=1,
            dashboard="d-1",
        )

    def run(self, script: str, *words: object, secrets: dict[str, str] | None = None, wait: float = 60) -> JobState:
        """Run a script as a job of its own name."""
        name = f"job-{next(self._numbers)}"
        self.jobs.start(name, script, *map(str, words), secrets=secrets)
        return self.jobs.follow(name, wait)

    def start(self) -> JobState:
        folders = (self.target.data_dir, self.identity(self.target.data_dir), "", "mysql", self.target.config_file, "")
        return self.run(START, *folders, *NOT_QUIET, "/usr/bin/systemctl", "start", UNIT)

    def swap(self, *, running: bool, unit: str = UNIT, wait: float = 60) -> JobState:
        target = self.target
        plan = (target.data_dir, self.identity(target.data_dir), int(running), target.server_id, "", target.socket)
        rest = (self.aside, "mysql", "mariadb", "run-1", "", "")
        secrets = {"admin.cnf": self.option_file, "inside": ""}
        return self.run(SWAP, *plan, *rest, "/usr/bin/systemctl", "stop", unit, secrets=secrets, wait=wait)

    def roll_back(self) -> JobState:
        target = self.target
        failed = target.data_dir.with_name("data.dbops-failed-run-1")
        plan = (target.data_dir, "run-1", self.aside, self.identity(self.aside), failed)
        rest = (target.server_id, target.socket, "mariadb", "", "mysql", "/usr/bin/systemctl", "stop", UNIT)
        return self.run(ROLLBACK, *plan, *rest, secrets={"admin.cnf": self.option_file})

    @property
    def aside(self) -> Path:
        return self.target.data_dir.with_name("data.dbops-old-run-1")

    @staticmethod
    def identity(path: Path) -> str:
        return f"{path.stat().st_dev}:{path.stat().st_ino}"

    def state(self) -> tuple[str, str]:
        return self.machine.property(UNIT, "ActiveState"), self.machine.property(UNIT, "SubState")

    def refuses_swap(self, *, running: bool, unit: str = UNIT) -> str:
        """Return why the swap is refused; it must leave the data where it is."""
        before = self.identity(self.target.data_dir)
        state = self.swap(running=running, unit=unit)
        assert (state.status, state.exit_status) == (ENDED, REFUSED), state
        assert self.identity(self.target.data_dir) == before
        assert not self.aside.exists()
        return reason_of(state)

    @contextmanager
    def overridden(self, text: str) -> Iterator[None]:
        self.machine.write(OVERRIDE, text)
        try:
            yield
        finally:
            self.machine.forget(OVERRIDE)


@pytest.fixture
def work(stack: Stack, machine: SystemdHost) -> Iterator[Work]:
    """Give the target with its server running. Afterwards it runs again, on its own data."""
    target, account = stack.lab.host(TARGET), stack.lab.accounts["admin"]
    login = flavor_for("10.11.19", "mariadb").credentials_file(account.user, account.password, plugin_dir="")
    shell = SshShell(
        SshAddress(target.address, target.ssh_port, "root", stack.lab.ssh_key.read_text(), target.sshd.host_key)
    )
    machine.run("systemctl", "reset-failed")
    machine.run("systemctl", "start", UNIT)
    made = Work(machine, target, shell, login)
    yield made
    machine.run("rm", "-rf", f"{target.folder}/jobs", f"{target.data_dir}.dbops-failed-run-1")
    shell.close()


@pytest.mark.skipif(bool(why_no_account()), reason=why_no_account())
@pytest.mark.runs("MariaDB 10.11", "xbstream")
def test_rebuild_and_rollback_through_gates(stack: Stack, machine: SystemdHost) -> None:
    with through_gates(stack):
        facts = stack.wait_for_facts(TARGET, answering=True)
        assert (facts["host_problem"], facts["host"]["has_systemd"]) == (None, True)
        before = stack.lab.host(TARGET).data_dir.stat().st_ino
        machine.write(OVERRIDE, BAD_OPTION)
        stack.wait_for_possible_plan(TARGET)
        status, lines = stack.rebuild(TARGET, check=False)
        assert (status, lines[-1]["status"]) == (1, "failed"), lines[-3:]
        assert "no-such-option" in str(lines[-1]), lines[-1]
        machine.forget(OVERRIDE)
        status, lines = stack.rebuild(TARGET, "--roll-back")
        assert (status, lines[-1]["status"]) == (0, "succeeded"), lines[-3:]
        assert stack.lab.host(TARGET).data_dir.stat().st_ino == before

        stack.wait_for_possible_plan(TARGET)
        _, lines = stack.rebuild(TARGET)
        assert lines[-1]["status"] == "succeeded"
    same_data_at_one_gtid(stack, TARGET)
    assert machine.property(UNIT, "ActiveState") == "active"
    started = machine.run("journalctl", "--no-pager", "--output", "cat", "--identifier", "systemd")
    for step in ("guard", "swap-datadir", "stream", "prepare", "start", "rollback"):
        assert f"-{step}.scope" in started


class TestJobs:
    def test_job_survives_a_restart_of_sshd_that_ends_its_control_group(self, work: Work) -> None:
        work.jobs.start("long", "echo first; sleep 3; echo last; exit 7")
        pid = work.shell.run("setsid sleep 300 >/dev/null 2>&1 & echo $!").stdout.strip()
        work.machine.run("systemctl", "restart", f"sshd@{TARGET}")
        work.shell.close()
        assert work.machine.run("cat", f"/proc/{pid}/comm", check=False).strip() != "sleep", pid
        state = work.jobs.follow("long", 30)
        assert (state.status, state.exit_status, state.tails["out"]) == (ENDED, 7, "first\nlast\n")

    def test_stop_ends_the_job_and_its_scope(self, work: Work) -> None:
        scope = "dbops-d-1-run-1-long.scope"
        assert work.jobs.start("long", "sleep 300 | sleep 300").status is RUNNING
        assert work.machine.property(scope, "ActiveState") == "active"
        assert work.machine.property(scope, "OOMPolicy") == "continue"
        state = work.jobs.stop("long", 20)
        assert (state.status, state.exit_status) == (ENDED, 130)
        wait_until(lambda: work.machine.property(scope, "ActiveState") == "inactive")

    def test_server_of_a_start_command_survives_its_job(self, work: Work) -> None:
        """What a start command leaves behind must not end with the job, as it would in a service."""
        state = work.run("setsid sleep 301 7>&- 9>&- >/dev/null 2>&1 & echo $!")
        pid = state.tails["out"].strip()
        assert state.exit_status == 0
        assert work.machine.run("cat", f"/proc/{pid}/comm").strip() == "sleep"
        work.machine.run("kill", pid)

    @pytest.mark.parametrize("reason", ["the name is taken", "no answer"])
    def test_job_without_a_scope_starts_and_says_so(self, work: Work, reason: str) -> None:
        if reason == "no answer":
            work.machine.run("mv", "/run/systemd/private", "/run/systemd/private.away")
        else:
            words = ["--scope", "--unit=dbops-d-1-run-1-long", "setsid", "--fork", "sleep", "300"]
            work.machine.run("sh", "-c", 'systemd-run "$@" >/dev/null 2>&1 </dev/null', "sh", *words)
        try:
            work.jobs.start("long", "echo done; exit 3")
            state = work.jobs.follow("long", 30)
        finally:
            if reason == "no answer":
                work.machine.run("mv", "/run/systemd/private.away", "/run/systemd/private")
            else:
                work.machine.run("systemctl", "stop", "dbops-d-1-run-1-long.scope")
        assert (state.status, state.exit_status) == (ENDED, 3)
        lines = state.tails["out"].splitlines()
        assert (lines[-2][:5], lines[-1]) == ("NOTE:", "done")


class TestStarting:
    def test_failed_start_names_the_log_and_does_not_use_up_the_limit(self, work: Work) -> None:
        work.machine.run("systemctl", "stop", UNIT)
        with work.overridden(BAD_OPTION):
            for _ in range(4):  # the unit allows three starts
                state = work.start()
                assert state.exit_status == FAILED
                assert "no-such-option" in reason_of(state)
        assert work.state() == ("failed", "failed")
        assert work.start().exit_status == 0
        assert work.state() == ("active", "running")


class TestStopping:
    def test_server_outside_of_its_unit_is_refused(self, work: Work) -> None:
        work.machine.run("systemctl", "stop", UNIT)
        work.machine.run("sh", "-c", f"setsid {work.target.start_script} >/dev/null 2>&1 </dev/null")
        assert UNIT in work.refuses_swap(running=True)
        work.machine.run(str(work.target.stop_script))

    def test_masked_unit_is_refused_before_the_stop(self, work: Work) -> None:
        work.machine.run("ln", "-s", "/dev/null", f"/run/systemd/system/{UNIT}")
        work.machine.run("systemctl", "daemon-reload")
        assert "unmask" in work.refuses_swap(running=True)
        work.machine.forget(UNIT)
        assert work.state() == ("active", "running")

    def test_unknown_unit_is_refused_before_the_stop(self, work: Work) -> None:
        assert "no-such.service" in work.refuses_swap(running=True, unit="no-such.service")
        assert work.state() == ("active", "running")

    def test_active_socket_is_refused_before_the_stop(self, work: Work) -> None:
        work.machine.run("systemctl", "stop", UNIT)
        listen = f"ListenStream={work.target.folder}/run/activated.sock\nService={UNIT}\n"
        work.machine.write("activated.socket", f"[Unit]\nDefaultDependencies=no\n[Socket]\n{listen}")
        work.machine.run("systemctl", "start", "activated.socket")
        assert "activated.socket" in work.refuses_swap(running=False)
        work.machine.run("systemctl", "stop", "activated.socket")
        work.machine.forget("activated.socket")

    def test_unit_that_restarts_stays_down_while_its_data_is_moved_and_moved_back(self, work: Work) -> None:
        """A failed unit with Restart=always waits for its next start, without a process to be seen."""
        old = work.identity(work.target.data_dir)
        work.machine.run("systemctl", "stop", UNIT)
        waiting = ("activating", "auto-restart")
        with work.overridden(f"{BAD_OPTION}Restart=always\nRestartSec=2s\n"):
            work.machine.run("systemctl", "start", UNIT, check=False)
            wait_until(lambda: work.state() == waiting)
            state = work.swap(running=False)
            assert (state.status, state.exit_status) == (ENDED, 0), state
            assert work.identity(work.aside) == old
            assert work.state()[0] == "inactive"
            assert [file.name for file in work.target.data_dir.iterdir()] == [".dbops-run-1"]
        with work.overridden(f"{BAD_OPTION}Restart=always\nRestartSec=60s\n"):
            work.machine.run("systemctl", "start", UNIT, check=False)
            wait_until(lambda: work.state() == waiting)
            state = work.roll_back()
            assert (state.status, state.exit_status) == (ENDED, 0), state
            assert work.state()[0] == "inactive"
        assert work.identity(work.target.data_dir) == old

    def test_nothing_is_moved_while_a_stop_hangs(self, work: Work) -> None:
        """Debian's unit sends no SIGKILL after its time to stop: systemctl returns, and the server still runs."""
        old = work.identity(work.target.data_dir)
        pid = work.machine.property(UNIT, "MainPID")
        with work.overridden("[Service]\nKillSignal=SIGCONT\nTimeoutStopSec=1s\n"):
            state = work.swap(running=True, wait=0)
            wait_until(lambda: work.state()[0] == "failed")
            assert state.status is RUNNING
            assert work.identity(work.target.data_dir) == old
        work.machine.run("kill", pid)
        assert work.jobs.follow("job-0", 60).exit_status == 0
        assert work.roll_back().exit_status == 0
        assert work.identity(work.target.data_dir) == old
