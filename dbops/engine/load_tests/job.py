"""Run the job of one load test: start or find it, take the results of its rounds, judge it, and remove everything that it made."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.hosts.jobs import IN_BASH
from dbops.engine.hosts.scripts import load
from dbops.engine.load_tests.copy import KIND, REMOVAL
from dbops.engine.load_tests.plan import LoadTestPlan
from dbops.engine.load_tests.result import STEPS, failed_round, judge_end
from dbops.engine.load_tests.round_parsing import parse_round
from dbops.engine.load_tests.round_result import RoundResult
from dbops.engine.ports import JobState, JobStatus
from dbops.engine.restore_tests.job import RemovalJob, RestoreTestContext
from dbops.engine.restore_tests.result import read_steps

SCRIPTS = (
    *("common", "pipes", "copied_options", "scratch", "scratch_server", "restored_copy"),
    *("tunnel", "measure", "copies", "load_test_limits", "run_load_test"),
)
#: Of a load test without a scratch server.
TIDB_SCRIPTS = (
    *("common", "scratch", "scratch_server", "restored_copy"),
    *("tunnel", "measure", "load_test_limits", "run_tidb_load"),
)
#: Maximum size of the result of one round.
RESULT_BYTES = 8 * 1024**2
_READ = f'head -c {RESULT_BYTES} -- "jobs/{KIND}/round.$1"'
#: What copies of a schema lack: the first words of ``note_losses`` in ``copies.sh``, and their names in the report.
LOSSES = {
    "foreign-keys": "ForeignKeys",
    "triggers": "Triggers",
    "not-tables": "ViewsAndSequences",
    "elsewhere": "TablesElsewhere",
}
_SEEN = f': >"jobs/{KIND}/seen"'
_ENOUGH = f': >"jobs/{KIND}/enough"'


def _not_removed(operation: str, cause: str, state: str) -> RemoteFailure:
    return RemoteFailure("load_test.not_removed", operation, cause=cause, state=state)


OF_LOAD_TEST = RemovalJob(REMOVAL, "remove_load_test", "load test", _not_removed)


@dataclass(slots=True)
class LoadTestContext(RestoreTestContext):
    """One running load test. ``plan`` has the scratch directories, and the backup if one is restored.

    ``files`` are those of the job. ``take`` is called once with the results so far after each finished round, and returns whether they
    are enough.
    """

    load_plan: LoadTestPlan | None = None
    files: Callable[[], dict[str, str]] = field(default=dict)
    take: Callable[[RoundResult], bool] = field(default=lambda _result: False)

    @property
    def operation(self) -> str:
        return f"Running the load test on {self.load_plan.host if self.load_plan else 'a host'}"

    def stalled(self, found: str) -> RemoteFailure:
        return RemoteFailure("load_test.stalled", self.operation, cause=found)

    def not_ended(self, found: str) -> Unreachable:
        return Unreachable("load_test.not_ended", self.operation, cause=found)


def advance(context: LoadTestContext) -> dict[str, str] | None:
    """Advance the load test for about a second. Return the facts of its end, or ``None`` if it is not finished.

    Raises:
        Unreachable: the host does not answer; before the job was requested (``checkpoint["asked"]``) nothing runs there.
        Refused, RemoteFailure: the load test failed; ``clean_up`` ends it.
        Cancelled: by the journal.
    """
    job, plan = context.job, context.plan
    job.begin(context.journal, context.open_way)
    scripts = TIDB_SCRIPTS if context.load_plan and context.load_plan.tidb else SCRIPTS
    state = job.follow(lambda: context.jobs.start(KIND, load(*scripts), *plan.arguments(), secrets=context.files()))
    if state.status is JobStatus.ABSENT:
        return None
    context.checkpoint["steps"] = read_steps(state.tails.get("steps", ""), STEPS)
    context.checkpoint["progress"] = _progress(state)
    if losses := _losses(state):
        context.checkpoint["not_copied"] = losses
    _take_rounds(context, state)
    if state.status is JobStatus.RUNNING:
        job.watch(state, context.stall, context.warn)
        context.journal.check()
        return None
    if number := failed_round(state):
        parse_round(_read(context, number), _round(context, number))  # raises what the generator said
    return judge_end(context.operation, state)


def note_look(context: LoadTestContext) -> None:
    """Tell the job that its target was seen to serve nothing; without that, it ends the load. Raises as ``Jobs.act``."""
    context.jobs.act(_SEEN)


def _progress(state: JobState) -> dict[str, Any]:
    """Return what the current step is doing: its round, or the copies made so far."""
    round_, copies = (_last(state.tails.get(name, "")) for name in ("progress", "copies"))
    found: dict[str, Any] = {}
    if len(round_) == 3 and round_[0] == "begin" and round_[1].isdecimal():
        found["round"] = int(round_[1])
    if len(copies) == 4 and copies[1].isdecimal() and copies[2].isdecimal():
        found |= {"copies": int(copies[1]), "wanted_copies": int(copies[2])}
    return found


def _losses(state: JobState) -> dict[str, int]:
    """Return how many parts of the schema the copies lack, by name."""
    lines = [line.split() for line in state.tails.get("notes", "").splitlines()]
    return {
        LOSSES[line[0]]: int(line[1]) for line in lines if len(line) == 2 and line[0] in LOSSES and line[1].isdecimal()
    }


def _last(text: str) -> Sequence[str]:
    lines = text.splitlines()
    return lines[-1].split() if lines else ()


def _take_rounds(context: LoadTestContext, state: JobState) -> None:
    """Take the results of rounds that have ended since, in their order. A round is taken before it is noted as taken: a driver that
    dies in between takes it again, and ``take`` replaces it."""
    ended = [line.split() for line in state.tails.get("progress", "").splitlines()]
    last = max(
        (int(words[1]) for words in ended if len(words) == 3 and words[0] == "end" and words[1].isdecimal()), default=0
    )
    while (number := context.checkpoint.get("taken", 0) + 1) <= last:
        result = parse_round(_read(context, number), _round(context, number))
        if context.take(result) and not context.checkpoint.get("enough"):
            context.jobs.act(_ENOUGH)
            context.checkpoint["enough"] = True
        context.checkpoint["taken"] = number
        context.journal.check()


def _round(context: LoadTestContext, number: int) -> Any:
    assert context.load_plan is not None  # noqa: S101 - the driver gives it
    return context.load_plan.rounds[number - 1]


def _read(context: LoadTestContext, number: int) -> str:
    done = context.jobs.act(IN_BASH, _READ, str(number))
    return done.stdout if done.exit_status == 0 else ""
