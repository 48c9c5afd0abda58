"""The outcome text about the data location, from a real inspection after a data directory swap."""

import subprocess
from pathlib import Path

import pytest

from dbops.engine.hosts.jobs import pairs
from dbops.engine.hosts.scripts import load
from dbops.engine.rebuilds.steps.preflight.data_location import describe_data_location, describe_service
from tests.engine import builders
from tests.engine.by_name import build_plan
from tests.engine.hosts.test_swap_datadir import DATADIR, RIGHT, SCRIPT, build, target_host


class Seen:
    """As much of a run as is needed to tell."""

    def __init__(self, found: dict[str, str]) -> None:
        self.plan = build_plan(builders.inputs())
        self.followed = self.plan.primary
        self.checkpoint = {"touched": True, "found": found}


def look(run_directory: Path, datadir: Path) -> dict[str, str]:
    words = ["look", str(datadir), f"{datadir}.dbops-old-run", "run"]
    command = ["bash", "-c", load("common", "inspect_target"), *words]
    return pairs(subprocess.run(command, cwd=run_directory, capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize("was_told", [True, False])
def test_describe_service_omits_the_start_command_when_a_stop_was_sent(was_told: bool) -> None:
    """A person cancels while the init system stops it: our script is ended, and the init system continues."""
    with target_host() as host:
        told = build(host, RIGHT)
        if was_told:
            host.swap_datadir(told, SCRIPT.replace('"$@" </dev/null ||', "exit 0 ||"))
        [run_directory] = {path.parent for path in host.root.rglob("stopping")} or {host.root}
        found = look(run_directory, host.place(DATADIR))
    text, unasked = (describe_data_location(Seen(seen)) for seen in (found, found | {"stopping": ""}))  # type: ignore[arg-type]
    assert found["pids"].strip(), "it still runs"
    assert bool(found["stopping"]) is was_told
    assert (text != unasked) is was_told, text
    start = Seen(found).plan.target.start_command
    assert (start in text) is was_told, text


@pytest.mark.parametrize("older", ["/data.dbops-old-1", "", None])
def test_describe_service_names_old_data_after_half_a_copy(older: str | None) -> None:
    seen = Seen({})
    if older is not None:
        seen.checkpoint["incomplete_copy"] = older
    text = describe_service(seen)  # type: ignore[arg-type]
    assert ("/data.dbops-old-1" in text) is (older == "/data.dbops-old-1"), text
    assert (text != describe_service(Seen({}))) is bool(older), text  # type: ignore[arg-type]
