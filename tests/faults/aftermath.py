"""What must hold after each fault, looked at on the hosts themselves and in the dashboard's tables."""

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tests.e2e.host_state import host_states, is_replicating, link_of, one, processes_of, same_data_at_one_gtid
from tests.faults.matrix import Expected
from tests.faults.moments import FINAL
from tests.faults.outcomes import reattached_seconds
from tests.faults.scene import LOAD_TPS, PRIMARY, SOURCE, TARGET, Scene, counters
from tests.stack import wait_for

#: How long the source may take to be as it was found, and processes to be gone.
GIVEN_BACK_SECONDS = 60.0
REATTACH_SECONDS = 30
#: stages of one backup, as the source's server counts them: START, FLUSH, BLOCK_DDL, BLOCK_COMMIT, END
STAGES_OF_ONE_BACKUP = 5
#: what the series call it
PARALLEL_APPLIERS = ("slave_parallel_threads", "slave_parallel_workers", "replica_parallel_workers")
#: we ended the copy ourselves, and no driver has checked its ends yet
ENDED_BY_US = ("host.stalled", "backup.redo_stuck")


@dataclass(frozen=True, slots=True)
class Violation:
    """``kind`` is one of: source-stopped, wrong-machine, false-success, stuck, orphan, sent-again, unexpected, broken, missed."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def look(scene: Scene) -> list[Violation]:
    """Return everything that does not hold, worst first; nothing is skipped because of an earlier one."""
    expected = scene.fault.expect(scene)
    checks: list[tuple[str, Callable[[Scene, Expected], None]]] = [
        ("source-stopped", source_replicates),
        ("wrong-machine", others_are_untouched),
        ("wrong-machine", target_is_where_it_says),
        ("orphan", nothing_runs_on),
        ("orphan", no_key_is_left),
        ("orphan", no_secret_is_left),
        ("stuck", no_claim_is_left),
        ("sent-again", work_was_done_once),
        ("unexpected", ended_as_expected),
        ("unexpected", fault_checks),
        ("unexpected", a_failure_is_explained),
        ("false-success", success_is_true),
    ]
    found = []
    for kind, check in checks:
        try:
            check(scene, expected)
        except Exception as error:
            found.append(Violation(kind, f"{check.__name__}: {type(error).__name__} {error}"))
    return found


def source_replicates(scene: Scene, _: Expected) -> None:
    wait_for(f"replication of {SOURCE}", lambda: is_replicating(scene.stack, SOURCE), GIVEN_BACK_SECONDS)


def others_are_untouched(scene: Scene, expected: Expected) -> None:
    now = host_states(scene.stack)
    for name in {PRIMARY, SOURCE} - expected.touched:
        before = scene.before[name]
        # the run's own journal stays on the source, and nowhere else
        seen = replace(now[name], runs=before.runs) if name == SOURCE else now[name]
        assert seen == before, f"{name} is not as it was found: {before} -> {seen}"
    primary = one(scene.stack, PRIMARY, "SELECT @@read_only AS r")
    assert primary["r"] == 0


def target_is_where_it_says(scene: Scene, _: Expected) -> None:
    """The outcome's words against the disk."""
    rebuild, now = scene.rebuild(), host_states(scene.stack)[TARGET]
    before, outcome = scene.before[TARGET], rebuild["outcome"]
    assert outcome, "the outcome is empty"
    if not json.loads(rebuild["checkpoint"]).get("touched"):
        assert replace(now, runs=()) == replace(before, runs=()), f"{TARGET} was touched: {before} -> {now}"
        return
    aside = f"data.dbops-old-{scene.uid}"
    if aside in outcome:
        assert aside in now.beside_data, f"there is no {aside}: {now.beside_data}"
    else:
        assert aside not in now.beside_data, f"the outcome does not name {aside}: {outcome}"


def nothing_runs_on(scene: Scene, _: Expected) -> None:
    deadline = time.monotonic() + GIVEN_BACK_SECONDS
    while (left := processes_of(scene.uid)) and time.monotonic() < deadline:
        time.sleep(0.5)
    assert not left, f"processes of the run are left: {left}"


def no_key_is_left(scene: Scene, _: Expected) -> None:
    for host in scene.stack.lab.hosts:
        wait_for(
            f"the run's key gone from {host.name}",
            lambda host=host: scene.uid not in (host.folder / "authorized_keys").read_text(),
            GIVEN_BACK_SECONDS,
        )


def no_secret_is_left(scene: Scene, _: Expected) -> None:
    def left() -> list[Path]:
        runs = [host.work_dir / "rebuilds" / scene.uid for host in scene.stack.lab.hosts]
        return [path for run in runs for path in run.rglob("*") if path.suffix == ".cnf" or path.name == "key"]

    wait_for("credentials and private key gone", lambda: not left(), GIVEN_BACK_SECONDS)


def no_claim_is_left(scene: Scene, _: Expected) -> None:
    rows = scene.stack.rows
    assert rows("SELECT * FROM dbops_hold") == []
    unfinished = rows("SELECT id, status, target_slot_id, lease_owner FROM dbops_rebuild")
    left = [row for row in unfinished if row["status"] not in FINAL or row["target_slot_id"] or row["lease_owner"]]
    assert left == []


def work_was_done_once(scene: Scene, expected: Expected) -> None:
    """The source's server counts the stages of backups, the target's log its starts: neither is asked of the dashboard."""
    now, before = counters(scene), scene.counters
    starts = now["server_starts"] - before["server_starts"]
    succeeded = scene.rebuild()["status"] == "succeeded"
    if "backup_stages" in now:
        stages = now["backup_stages"] - before["backup_stages"]
        assert stages <= STAGES_OF_ONE_BACKUP, f"{stages} stages of backups were run: more than one backup was sent"
        assert not succeeded or stages == STAGES_OF_ONE_BACKUP, f"only {stages} stages of a backup were run"
    assert not succeeded or starts == expected.starts, f"the target's server was started {starts} times"
    for host in scene.stack.lab.hosts:
        jobs = host.work_dir / "rebuilds" / scene.uid / "jobs"
        names = [path.name for path in jobs.glob("*")]
        assert all((jobs / name / "pid").exists() for name in names), f"a job of {names} was never started"


def ended_as_expected(scene: Scene, expected: Expected) -> None:
    rebuild = scene.rebuild()
    status, code = rebuild["status"], json.loads(rebuild["error"]).get("code", "")
    assert status in expected.status, f"it ended {status} ({code}), expected {expected.status}"
    assert not expected.code or code in expected.code, f"its error is {code!r}, expected {expected.code}"
    events = scene.events()
    for pattern in expected.events:
        assert any(re.search(pattern, text) for text in events), f"no event {pattern!r} in {events}"
    silence = reattached_seconds(scene)
    if expected.reattached:
        assert silence is not None, f"no event names a re-attachment: {events}"
        assert silence <= REATTACH_SECONDS, f"re-attached after {silence} s only"
    assert "bug" not in code.split("."), f"a bug: {rebuild['error']}"


def fault_checks(scene: Scene, _: Expected) -> None:
    scene.fault.after(scene)


def a_failure_is_explained(scene: Scene, _: Expected) -> None:
    """What was found, what is left, what to do next; and of a copy that failed both ends' exit status and last lines."""
    error = json.loads(scene.rebuild()["error"])
    if not error:
        return
    assert all(error.get(part) for part in ("code", "cause", "next_step")), f"the error says too little: {error}"
    result = scene.stream_result()
    if result is None or error["code"] in ENDED_BY_US:
        return
    ends = {"source backup", "transport", "unpack"}
    assert set(result.get("exit_statuses", {})) == ends, f"not the exit status of every end: {result}"
    assert set(result.get("tails", {})) == {"source", "transport", "unpack"}, (
        f"not the last lines of every end: {result}"
    )


def success_is_true(scene: Scene, _: Expected) -> None:
    """A replica of the primary, read-only, with the same rows at one GTID."""
    if scene.rebuild()["status"] != "succeeded":
        return
    stack = scene.stack
    link = link_of(stack, TARGET)
    assert link, "it does not replicate"
    assert link.source == f"{scene.primary.address}:{scene.primary.port}", f"it replicates from {link.source}"
    assert link.works, link.error
    assert one(stack, TARGET, "SELECT @@read_only AS r")["r"] == 1
    assert set(scene.steps().values()) == {"done"}, scene.steps()
    row = one(stack, TARGET, "SHOW GLOBAL VARIABLES WHERE Variable_name IN (%s, %s, %s)", *PARALLEL_APPLIERS)
    appliers = int(row["Value"])
    assert appliers == stack.lab.settings.parallel_appliers, f"its settings are still relaxed: {appliers} appliers"
    try:
        same_data_at_one_gtid(stack, TARGET)
    finally:
        if stack.lab.write_load.pid() is None:
            stack.lab.load_start(tps=LOAD_TPS)
