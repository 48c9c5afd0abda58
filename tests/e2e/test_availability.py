"""A real outage, a real external backup and a real rebuild are the gaps that the hosts' own clocks saw."""

import json
import subprocess
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.stack import Stack, wait_for

from .host_state import one
from .test_observed_backups import begun, client_options, last, slow_reader

pytestmark = pytest.mark.services
TARGET, SOURCE = "replica-1", "backup-1"
#: Of what is known only from one probe to the next, the probe itself is asked when it was; this is for clocks and seconds cut off.
SLACK = timedelta(seconds=2)
Moments = tuple[datetime, datetime]


def now() -> datetime:
    return datetime.now(UTC)


def probed(stack: Stack, name: str, **wanted: bool) -> datetime:
    """Return when the first probe was that began after now."""
    return datetime.fromisoformat(stack.wait_for_facts(name, **wanted)["observed_at"])


def outage(stack: Stack) -> Moments:
    """Lose a replica. Return when it was lost at the earliest, and when a probe surely knew."""
    lost = now()
    stack.lab.break_host(TARGET, "wipe")
    return lost, probed(stack, TARGET, answering=False)


def backup(stack: Stack) -> tuple[int, Moments, Moments]:
    """Let somebody's cron job read the source. Return its run, and between which moments it began and ended."""
    before, folder = last(stack), stack.folder / "lsn-of-a-gap"
    folder.mkdir()
    host = stack.lab.host(SOURCE)
    words = ["mariadb-backup", "--no-defaults", "--backup", "--stream=xbstream", f"--target-dir={folder}"]
    began = now()
    with slow_reader([*words, *client_options(stack, SOURCE), f"--datadir={host.data_dir}"]):
        row = begun(stack, before, "the backup", status="running")
        seen = probed(stack, SOURCE)
    ended = now()
    begun(stack, before, "its end", status="ended")
    return int(row["id"]), (began, seen), (ended, probed(stack, SOURCE))


def rebuild(stack: Stack) -> tuple[int, Moments, Moments, Moments]:
    """Return its number, and between which moments the source was taken, it was given back, and the replica served again."""
    stack.wait_for_possible_plan(TARGET)
    asked = now()
    stack.rebuild(TARGET)
    ended = now()
    number = stack.rows("SELECT max(id) AS id FROM dbops_rebuild")[0]["id"]
    # the hosts' own clocks: the new data directory, the source's list of keys, the new server
    born = subprocess.run(
        ["stat", "-c", "%W", str(stack.lab.host(TARGET).data_dir)], capture_output=True, check=True, text=True
    )
    made = datetime.fromtimestamp(int(born.stdout), UTC)
    given_back = datetime.fromtimestamp((stack.lab.host(SOURCE).folder / "authorized_keys").stat().st_mtime, UTC)
    uptime = int(one(stack, TARGET, "SHOW GLOBAL STATUS LIKE 'Uptime'")["Value"])
    return (
        number,
        (asked, made),
        (given_back, given_back),
        (min(now() - timedelta(seconds=uptime), ended), probed(stack, TARGET)),
    )


def gaps(stack: Stack, kind: str, since: datetime) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the intervals of one kind since then, the earliest first, and all that the page's file says."""
    found = json.loads(stack.get(f"/availability/test/?days=7&gap={kind}&format=json"))
    return [
        part for part in reversed(found["intervals"]) if datetime.fromisoformat(part["from"]) >= since - SLACK
    ], found


def ends(parts: list[dict[str, Any]]) -> Moments:
    """Return from when to when they reach, without a hole."""
    for earlier, later in zip(parts, parts[1:], strict=False):
        assert earlier["to"] == later["from"], parts
    return datetime.fromisoformat(parts[0]["from"]), datetime.fromisoformat(parts[-1]["to"])


def assert_between(moment: datetime, bounds: Moments, what: str) -> None:
    assert bounds[0] - SLACK <= moment <= bounds[1] + SLACK, f"{what}: {moment} is not within {bounds}"


def test_gaps_match_the_clocks_of_the_hosts(stack: Stack) -> None:
    stack.wait_for_possible_plan(TARGET)
    wait_for("a quiet source", lambda: not stack.rows("SELECT 1 FROM dbops_hold"))
    since = now()
    lost = outage(stack)
    run, began, ended = backup(stack)
    number, taken, given_back, serves = rebuild(stack)

    short, _ = gaps(stack, "short", since)
    start, end = ends(short)
    assert_between(start, lost, "the loss")
    assert_between(end, serves, "the new server")
    assert {"detection", "stream"} <= {part["cause"] for part in short}

    blocked, said = gaps(stack, "not_rebuildable", since)
    [by_backup] = [part for part in blocked if part["rests_on"] == f"run {run}"]
    assert_between(datetime.fromisoformat(by_backup["from"]), began, "the backup's begin")
    assert_between(datetime.fromisoformat(by_backup["to"]), ended, "the backup's end")
    start, end = ends([part for part in blocked if part["rests_on"] == f"rebuild {number}"])
    assert_between(start, taken, "the source is taken")
    assert_between(end, given_back, "the source is given back")
    [total] = [gap["seconds"] for gap in said["gaps"] if gap["gap"] == said["gap"]]
    assert total == pytest.approx(sum(said["causes"].values()))
    assert total == pytest.approx(sum(part["seconds"] for part in said["intervals"]))
