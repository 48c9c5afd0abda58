"""Bad input and real failures: a clear error each, and nothing changed on any host by what is refused."""

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.said import names
from tests.slow_process import braked
from tests.stack import Stack, wait_for

from .host_state import (
    host_states,
    is_replicating,
    last_rebuild,
    nothing_changes,
    on_a_small_disk,
    one,
    rebuild_and,
    source_is_given_back,
    stream_result,
    without_program,
)

pytestmark = [pytest.mark.services, pytest.mark.usefixtures("restored")]

SOURCE, TARGET = "backup-1", "replica-1"
MEBIBYTE = 1024**2


@pytest.fixture
def restored(stack: Stack) -> Iterator[None]:
    """Give the next test the fleet as the lab made it, whatever this one did."""
    yield
    for host in stack.lab.hosts:
        host.sshd.start()
        if host.server_pid() is None:
            host.start_server()
    stack.manage("fleet", "import", str(stack.lab.fleet_yaml), "--replace-host-keys")
    (stack.folder / "edited.yaml").unlink(missing_ok=True)
    stack.wait_for_possible_plan(TARGET)


def edited(stack: Stack, edit: Callable[[dict[str, Any], dict[str, Any]], None]) -> Path:
    """Write the lab's fleet file with a change: ``edit`` gets the file and its entries of hosts and instances by name."""
    fleet = yaml.safe_load(stack.lab.fleet_yaml.read_text())
    entries = {f"host {item['name']}": item for item in fleet["hosts"]}
    entries |= {f"instance {item['name']}": item for item in fleet["clusters"][0]["instances"]}
    edit(fleet, entries)
    path = stack.folder / "edited.yaml"
    path.write_text(yaml.safe_dump(fleet, sort_keys=False, width=1000))
    return path


def import_edited(stack: Stack, edit: Callable[[dict[str, Any], dict[str, Any]], None]) -> None:
    stack.manage("fleet", "import", str(edited(stack, edit)), "--replace-host-keys")


def wait_for_problem(stack: Stack, name: str, side: str, code: str) -> None:
    """Wait until a probe has found it: ``side`` is ``host`` or ``server``."""

    def seen() -> bool:
        return (stack.facts(name).get(f"{side}_problem") or {}).get("code") == code

    stack.wait_for_probe(f"{code} of {name}", seen, name)


def refusals(stack: Stack) -> set[str]:
    """Return the codes of what the plan of the target refuses."""
    return {item["code"] for item in stack.plan(TARGET)["findings"] if item["severity"] == "refusal"}


def refused(stack: Stack, target: str, *words: str) -> dict[str, str]:
    """Ask for a rebuild that must be refused. Return the error."""
    done = stack.manage("rebuild", target, "--reason", "a test", "--json", *words, check=False)
    assert done.returncode == 2, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
    answer = json.loads(done.stdout)
    assert answer["status"] == "refused"
    error: dict[str, str] = answer["error"]
    assert error["who"] == "operator"
    assert error["state"]
    assert error["next_step"]
    return error


# --- who may be talked to ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "code"), [(TARGET, "plan.refused"), (SOURCE, "plan.no_facts")])
def test_unaccepted_host_key_is_refused(stack: Stack, name: str, code: str) -> None:
    with nothing_changes(stack):
        stack.write("UPDATE dbops_host SET host_key = '' WHERE name = ?", name)
        wait_for_problem(stack, name, "host", "ssh.host_key_unknown")
        error = refused(stack, TARGET)
        assert error["code"] == code
        assert "ssh.host_key_unknown" in error["cause"]
        assert "SHA256:" in error["cause"]


@pytest.mark.parametrize(("name", "code"), [(TARGET, "plan.refused"), (SOURCE, "plan.no_facts")])
def test_changed_host_key_is_refused(stack: Stack, name: str, code: str) -> None:
    others_key = stack.lab.host("primary-1").sshd.host_key
    with nothing_changes(stack):
        import_edited(stack, lambda fleet, item: item[f"host {name}"]["ssh"].update(host_key=others_key))
        wait_for_problem(stack, name, "host", "ssh.host_key_changed")
        error = refused(stack, TARGET)
        assert error["code"] == code
        assert "ssh.host_key_changed" in error["cause"]
        assert "SHA256:" in error["cause"], "both keys"


def test_changed_host_key_is_imported_only_on_request(stack: Stack) -> None:
    others_key = stack.lab.host("primary-1").sshd.host_key
    before = stack.manage("fleet", "export").stdout
    path = edited(stack, lambda fleet, item: item[f"host {TARGET}"]["ssh"].update(host_key=others_key))
    done = stack.manage("fleet", "import", str(path), check=False)
    assert done.returncode == 1
    assert "host_key" in done.stderr
    assert stack.manage("fleet", "export").stdout == before


def test_wrong_dashboard_password_is_refused(stack: Stack) -> None:
    with nothing_changes(stack):
        import_edited(stack, lambda fleet, item: fleet["clusters"][0]["accounts"]["admin"].update(password="not this"))
        wait_for_problem(stack, SOURCE, "server", "mysql.access_denied")
        error = refused(stack, TARGET)
        assert error["code"] == "plan.no_facts"
        assert "mysql.access_denied" in error["cause"]
        assert "Access denied" in error["cause"]
        assert "not this" not in json.dumps(error)


def test_wrong_backup_password_is_refused(stack: Stack) -> None:
    """It would show only after the target's data is gone: so it is tried on the source before."""
    with nothing_changes(stack):
        import_edited(stack, lambda fleet, item: fleet["clusters"][0]["accounts"]["backup"].update(password="not this"))
        stack.wait_for_probe(
            "the account's refusal",
            lambda: any("Access denied" in item["error"] for item in stack.facts(SOURCE)["backup_account"]),
            SOURCE,
        )
        error = refused(stack, TARGET)
        assert error["code"] == "plan.refused"
        assert "source.account" in refusals(stack)
        assert "Access denied" in error["cause"]


@pytest.mark.parametrize(("name", "code"), [(TARGET, "plan.refused"), (SOURCE, "plan.no_facts")])
def test_stopped_sshd_is_reported(stack: Stack, name: str, code: str) -> None:
    with nothing_changes(stack):
        stack.lab.host(name).sshd.stop()
        wait_for_problem(stack, name, "host", "ssh.unreachable")
        error = refused(stack, TARGET)
        assert error["code"] == code
        assert names(error["cause"], f"{stack.lab.host(name).address}:2222")


def test_wrong_ssh_port_is_refused(stack: Stack) -> None:
    with nothing_changes(stack):
        import_edited(stack, lambda fleet, item: item[f"host {TARGET}"]["ssh"].update(port=2299))
        wait_for_problem(stack, TARGET, "host", "ssh.unreachable")
        error = refused(stack, TARGET)
        assert error["code"] == "plan.refused"
        assert names(error["cause"], f"{stack.lab.host(TARGET).address}:2299")


# --- what may be rebuilt from what ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "words", "texts"),
    [
        ("primary-1", (), ("primary-1", "read_only = 0")),
        ("primary-1", ("--source", TARGET), ("primary-1", "attached: ")),
        (TARGET, ("--source", TARGET), ("Same name",)),
        (TARGET, ("--source", "primary-1"), ("primary-1",)),
    ],
    ids=["the primary", "the primary from a replica", "itself", "from the primary"],
)
def test_wrong_machine_is_refused(stack: Stack, target: str, words: tuple[str, ...], texts: tuple[str, ...]) -> None:
    with nothing_changes(stack):
        error = refused(stack, target, *words)
        assert error["code"] == "plan.refused"
        for text in texts:
            assert text in error["cause"]


def test_missing_reason_is_refused(stack: Stack) -> None:
    with nothing_changes(stack):
        assert refused(stack, TARGET, "--reason", " ")["code"] == "rebuild.reason"


HOSTILE = [f"{TARGET}'; rm -rf /", f'{TARGET}"; DROP TABLE x; --', f"{TARGET}\nprimary-1", "$(reboot)", "../etc", " "]


def test_unknown_instance_name_is_refused(stack: Stack) -> None:
    quoted = HOSTILE[0]
    ways = [[name] for name in HOSTILE] + [[quoted, "--plan"], [quoted, "--cancel"], [TARGET, "--source", quoted]]
    with nothing_changes(stack):
        for words in ways:
            done = stack.manage("rebuild", "--reason", "a test", *words, check=False)
            assert (done.returncode, done.stdout) == (2, ""), words
            assert repr(quoted if quoted in words else words[0]) in done.stderr
            assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", HOSTILE)
def test_invalid_name_or_path_is_not_imported(stack: Stack, name: str) -> None:
    def edit(fleet: dict[str, Any], item: dict[str, Any]) -> None:
        item[f"host {TARGET}"].update(name=name)
        item[f"instance {TARGET}"].update(name=name, host=name, address=name, datadir=name)

    before = stack.manage("fleet", "export").stdout
    with nothing_changes(stack):
        done = stack.manage("fleet", "import", str(edited(stack, edit)), check=False)
    assert done.returncode == 1
    for place in ("hosts[2].name", "instances[2].name", "instances[2].address", "instances[2].datadir"):
        assert re.search(rf"edited\.yaml:\d+: \S*{re.escape(place)}: ", done.stderr), done.stderr
    assert "Traceback" not in done.stderr
    assert stack.manage("fleet", "export").stdout == before


# --- what the host lacks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "programs", "text"),
    [
        (TARGET, ("mariadb-backup", "mariabackup"), f"mariabackup on {TARGET}"),
        (SOURCE, ("mariadb-backup", "mariabackup"), f"mariabackup on {SOURCE}"),
        (TARGET, ("mbstream",), "Missing: mbstream"),
        (TARGET, ("ssh-keygen",), "Missing: ssh-keygen"),
    ],
)
def test_missing_program_is_refused(stack: Stack, name: str, programs: tuple[str, ...], text: str) -> None:
    def is_missed() -> bool:
        tools = (stack.facts(name).get("host") or {}).get("tools", {programs[0]: ""})
        return not set(programs) & set(tools)

    with nothing_changes(stack), without_program(stack.lab.host(name), stack.lab.folder / "bin", *programs):
        stack.wait_for_probe(f"{programs[0]} to be missed on {name}", is_missed, name)
        error = refused(stack, TARGET)
        assert error["code"] == "plan.refused"
        assert text in error["cause"]


# --- no room ----------------------------------------------------------------------------------------------------------


def wait_for_free_bytes(stack: Stack, low: int, high: int) -> None:
    def seen() -> bool:
        facts = stack.facts(TARGET)
        return facts["server"] is None and low <= (facts["datadir"] or {}).get("free_bytes", -1) <= high

    stack.wait_for_probe("the small disk to be read", seen, TARGET)


def test_small_disk_is_refused_by_the_plan(stack: Stack) -> None:
    host, identity = stack.lab.host(TARGET), stack.lab.host(TARGET).data_dir.stat().st_ino
    with on_a_small_disk(host, 40):
        wait_for_free_bytes(stack, 1, 40 * MEBIBYTE)
        with nothing_changes(stack):
            error = refused(stack, TARGET)
        assert error["code"] == "plan.refused"
        assert "target.space" in refusals(stack)
        assert "40.0 MiB free" in error["cause"]
        assert list(host.data_dir.iterdir()) == []
    assert host.data_dir.stat().st_ino == identity
    wait_for(f"{TARGET} to replicate again", lambda: is_replicating(stack, TARGET))


def test_full_disk_during_the_copy_fails_the_rebuild(stack: Stack) -> None:
    """The room was there when the plan was made, and is gone when the data arrives."""
    host = stack.lab.host(TARGET)

    def shrink() -> bool:
        words = ["mount", "-o", "remount,size=30M", str(host.data_dir)]
        return subprocess.run(words, capture_output=True, check=False).returncode == 0

    with on_a_small_disk(host, 2000):
        wait_for_free_bytes(stack, 1500 * MEBIBYTE, 2000 * MEBIBYTE)
        stack.wait_for_possible_plan(TARGET)
        status, rebuild = rebuild_and(stack, TARGET, "swap-datadir", shrink)
        error = json.loads(rebuild["error"])
        assert (status, rebuild["status"], error["code"]) == (1, "failed", "stream.disk_full"), error
        assert stream_result(stack, rebuild)["exit_statuses"]["unpack"] != 0
        source_is_given_back(stack, rebuild["uid"])
    wait_for(f"{TARGET} to replicate again", lambda: is_replicating(stack, TARGET))


# --- what breaks after the click --------------------------------------------------------------------------------------


def test_missing_source_fails_before_any_destruction(stack: Stack) -> None:
    """Nothing was destroyed yet, so nothing is: the target serves on."""
    before, source = host_states(stack), stack.lab.host(SOURCE)
    count = stack.rows("SELECT COUNT(*) AS n FROM dbops_rebuild")[0]["n"]
    stack.stop("worker")
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(stack.rebuild, TARGET, check=False)
        try:
            wait_for("the request", lambda: stack.rows("SELECT COUNT(*) AS n FROM dbops_rebuild")[0]["n"] > count)
            source.sshd.stop()
        finally:
            stack.start("worker")
        status, lines = following.result(320)
    result = lines[-1]
    assert (status, result["status"]) == (1, "failed")
    assert result["error"]["code"] == "plan.no_facts"
    assert "ssh.unreachable" in result["error"]["cause"]
    assert names(result["outcome"], TARGET)
    states = {step["name"]: step["state"] for step in result["steps"]}
    assert (states["preflight"], states["swap-datadir"], states["clean-up"]) == ("failed", "skipped", "done")
    source.sshd.start()
    assert host_states(stack) == before
    assert stack.rows("SELECT * FROM dbops_hold") == []
    assert is_replicating(stack, TARGET)


def kill_backup(stack: Stack) -> bool:
    """SIGKILL to the backup process of the newest run, once it has sent a first part. Return whether that was done."""
    uid = last_rebuild(stack)["uid"]
    try:
        pid, started = (stack.lab.host(SOURCE).work_dir / "rebuilds" / uid / "backup.pid").read_text().split()
        fields = Path(f"/proc/{pid}/stat").read_text()
        sent = int(Path(f"/proc/{pid}/io").read_text().split("wchar: ")[1].split()[0])
    except (OSError, ValueError):
        return False
    name, rest = fields.split("(", 1)[1].rsplit(")", 1)
    if name != "mariadb-backup" or rest.split()[19] != started or sent < MEBIBYTE:
        return False
    os.kill(int(pid), signal.SIGKILL)
    return True


def test_killed_backup_fails_the_rebuild(stack: Stack) -> None:
    host = stack.lab.host(TARGET)
    stack.wait_for_possible_plan(TARGET)
    with braked(host, share=0.1):  # or a small copy is over before it can be killed
        status, rebuild = rebuild_and(stack, TARGET, "stream", lambda: kill_backup(stack))
    error, aside = json.loads(rebuild["error"]), host.data_dir.with_name(f"data.dbops-old-{rebuild['uid']}")
    assert (status, rebuild["status"]) == (1, "failed")
    assert error["code"].startswith("stream."), error
    assert "source backup 137" in error["cause"]
    statuses = stream_result(stack, rebuild)["exit_statuses"]
    assert statuses["source backup"] == 137
    assert set(statuses) == {"source backup", "transport", "unpack"}
    assert None not in statuses.values()
    assert str(aside) in rebuild["outcome"]
    assert (aside / "ibdata1").is_file()
    assert host.server_pid() is None
    source_is_given_back(stack, rebuild["uid"])

    stack.wait_for_possible_plan(TARGET)
    _, lines = stack.rebuild(TARGET)
    assert lines[-1]["status"] == "succeeded"
    assert is_replicating(stack, TARGET)
    assert one(stack, TARGET, "SELECT @@read_only AS r")["r"] == 1
    assert (aside / "ibdata1").is_file()  # of the run that failed: a person decides about it
    shutil.rmtree(aside)
