"""The trial of the backup tool before anything is stopped."""

from dataclasses import replace
from pathlib import Path

import pytest

from dbops.engine.errors import RemoteFailure
from dbops.engine.rebuilds.steps.preflight.tool_trial import try_tool
from dbops.engine.rebuilds.steps.run import Run
from tests.engine import builders
from tests.engine.by_name import build_plan
from tests.engine.runs import RecordedJournal, make_run
from tests.fakes import FakeClock, FakeDatabase, FakeJobs

RECORDED = Path(__file__).parents[2] / "recorded" / "xtrabackup-2.4.20"
LISTS = [line for line in (RECORDED / "backup.log").read_text().splitlines() if "recognized" in line]


def trial(log: list[str]) -> Run:
    """Return a run whose tool ends well with this log."""
    made = build_plan(builders.inputs())
    plan = replace(made, flavor="mysql", source=replace(made.source, version="5.7.29"))
    jobs, database = FakeJobs(), FakeDatabase()
    server = f"{plan.source.server_id} {plan.source.datadir_identity}"
    jobs.expect("--print-param", "\n".join(["status=0", f"server={server}", "log=", *log, ""]))
    return make_run(plan, jobs, source=database, target=database, journal=RecordedJournal(), clock=FakeClock())


def test_tool_that_recognized_all_options_passes() -> None:
    try_tool(trial(LISTS))


def test_tool_that_ignores_an_option_is_refused() -> None:
    with pytest.raises(RemoteFailure) as error:
        try_tool(
            trial([line.replace("--slave-info=1", "").replace("--open_files_limit=1000000", "") for line in LISTS])
        )
    assert error.value.code == "backup.option"
    assert {"--slave-info", "--open-files-limit"} <= set(error.value.cause.replace(",", "").split())


def test_tool_that_does_not_list_its_options_passes() -> None:
    try_tool(trial(["Using server version 5.7.29-log"]))
