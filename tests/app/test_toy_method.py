"""A new method is one object: a toy goes through plan, conflicts, availability and pages, and no product code knows of it."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from django.test import Client

from dbops.engine.availability.gaps import parts, seconds
from dbops.engine.availability.record import Cause, UsableBackup
from dbops.engine.availability.shortages import Gap
from dbops.engine.methods import METHODS, archive, blocked_by, conflict_table, method_named
from dbops.engine.planning.inputs import PlanInputs
from dbops.engine.planning.method import Method
from dbops.engine.planning.method_comparison import compare
from dbops.engine.planning.planner import build_plan
from dbops.engine.rebuilds.plan import Finding, Plan, PlannedCommand
from dbops.engine.rebuilds.steps.base import Step
from dbops.engine.rebuilds.steps.finish.clean_up import CleanUp
from dbops.engine.rebuilds.steps.run import Run, StepOutcome, done
from dbops.engine.schedule.blockers import blockers
from dbops.engine.schedule.conflicts import FOR_A_BACKUP, WAITS, Activity, Conflict, CopySource, Effect
from dbops.engine.schedule.eligibility import EligibilityState, eligibility_of
from dbops.engine.schedule.snapshot import InstanceUse
from dbops.engine.states import BackupMethod, Severity
from dbops.lifecycle import backup_runs, starts
from dbops.loaders.availability_records import blocked_methods
from dbops.models import Rebuild
from dbops.operations.rebuilds import plan_rebuild
from tests.app import rows
from tests.app.web.marks import marks, part
from tests.app.web.test_plan import ADDRESS, form
from tests.app.web.test_plan_methods import able_to_unpack, finished
from tests.engine.availability.test_record import WEEK, record, well
from tests.engine.backups.test_archives import archive as archive_file
from tests.engine.backups.test_archives import world
from tests.engine.snapshots import backup, machines, snapshot


class Carry(Step):
    """Do nothing."""

    name = "carry"
    title = "Carry the backup over by hand"

    def commands(self, plan: Plan) -> tuple[PlannedCommand, ...]:
        return (PlannedCommand(plan.target.name, "# a person carries a disk"),)

    def advance(self, run: Run) -> StepOutcome:
        return done()


def has_a_carrier(inputs: PlanInputs) -> Iterator[Finding]:
    yield Finding("toy.carrier", Severity.OK, "Carrier", f"A person is near {inputs.target.host}.")


TOY = Method(
    name="toy",
    summary="Carry the latest physical backup over by hand.",
    steps=(Carry(), CleanUp()),
    checks=(*archive.METHOD.checks, has_a_carrier),
    conflicts={
        **FOR_A_BACKUP,
        Activity.NO_COPY: Conflict(Effect.BLOCKS, "There is nothing to carry."),
        Activity.SOURCE_PHYSICAL_MANAGED: Conflict(WAITS, "The disk is in use."),
    },
    reads=CopySource.PHYSICAL_BACKUP,
    short="by hand",
    no_pause="The source is unchanged.",
)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Name the toy where ``engine/methods/__init__.py`` names the others."""
    monkeypatch.setitem(METHODS, "toy", TOY)
    blocked_methods.cache_clear()
    yield
    blocked_methods.cache_clear()


# The engine takes the object itself


def test_plan_has_the_steps_checks_and_words_of_the_method() -> None:
    plan = build_plan(world(archive_file()), TOY)
    assert (plan.method, plan.archive and plan.archive.run) == ("toy", 7)
    assert [step.name for step in plan.steps] == ["carry", "clean-up"]
    assert plan.findings[-1].code == "toy.carrier"
    assert (plan.pause_source, plan.pause_reason) == (False, TOY.no_pause)
    assert (plan.compress_threads, plan.stream_reasons) == (0, ())


def test_comparison_shows_the_method_beside_the_others() -> None:
    found = {one.method: one for one in compare(world(archive_file()), [*METHODS.values(), TOY])}
    assert list(found) == [*METHODS, "toy"]
    assert (found["toy"].is_possible, found["toy"].summary, found["toy"].reads_server) == (True, TOY.summary, False)
    assert not {one.method: one for one in compare(world(), [TOY])}["toy"].is_possible


def test_blockers_are_judged_by_the_conflicts_of_the_method() -> None:
    asked = {"target": "replica-1", "source": "backup-1", "method": TOY}
    there = machines(has_archive=True, problem="down")
    assert [(item.work, item.effect) for item in blockers(snapshot(machines=there), **asked)] == [
        (Activity.SOURCE_DOWN, Effect.RUNS_ALONGSIDE)
    ]
    [nothing] = blockers(snapshot(), **asked)
    assert (nothing.work, nothing.reason) == (Activity.NO_COPY, "There is nothing to carry.")
    physical = backup(claims=(("backup-1", InstanceUse.PHYSICAL),))
    busy = snapshot(machines=machines(has_archive=True), jobs=(physical,))
    [waits] = blockers(busy, **asked)
    assert (waits.effect, waits.reason) == (WAITS, "The disk is in use.")
    assert eligibility_of(busy, target="replica-1", method=TOY).answer is EligibilityState.UNTIL


def test_availability_counts_the_backups_that_the_method_reads() -> None:
    given = record(*well("primary-1", "backup-1", "replica-1"))
    without = parts(given, WEEK, method=TOY)
    assert seconds(without, Gap.NOT_REBUILDABLE) == WEEK.seconds
    assert {part.cause for part in without if part.gap is Gap.NOT_REBUILDABLE} == {Cause.NO_BACKUP}
    for kind, short in ((BackupMethod.DUMP, WEEK.seconds), (BackupMethod.PHYSICAL, 0.0)):
        there = replace(given, backups=(UsableBackup(kind, WEEK),))
        assert seconds(parts(there, WEEK, method=TOY), Gap.NOT_REBUILDABLE) == short


# Rows, pages and requests find it by its name


@pytest.mark.usefixtures("known")
def test_tables_of_all_methods_have_it() -> None:
    assert method_named("toy") is TOY
    assert conflict_table()[Activity.NO_COPY].keys() == {"archive", "dump", "toy"}
    assert "toy" in blocked_by(Activity.SOURCE_PHYSICAL_MANAGED)
    assert ("toy" in blocked_methods("physical", True), "toy" in blocked_methods("dump", True)) == (True, False)


@pytest.mark.django_db
@pytest.mark.usefixtures("known")
def test_page_plans_it_and_a_request_queues_it(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbops.messaging.wakeups.publish", lambda *_: None)
    fleet = rows.make_fleet()
    run = finished(fleet["backup-1"])
    able_to_unpack(fleet)
    answer = operator.get(f"{ADDRESS}?method=toy")
    text = answer.content.decode()
    assert marks(text, "method") == list(METHODS)
    assert marks(part(text, 'data-method="toy"', "</tr>"), "possible") == ["yes"]
    assert answer.context["plan"].method == "toy"
    assert not answer.context["has_rate"]
    assert not answer.context["impact"].reads_server
    plan = plan_rebuild(target=fleet["replica-1"], source=fleet["backup-1"], method="toy")
    assert operator.post(ADDRESS, form(plan, method="toy")).status_code == 302
    rebuild = Rebuild.objects.get()
    assert (rebuild.method, rebuild.plan["archive"]["run"]) == ("toy", run.pk)
    assert backup_runs.runs_being_read() == {run.pk}
    assert [instance.name for instance, _ in starts.claims_of(rebuild)] == ["replica-1"]
    page = operator.get(f"/rebuilds/{rebuild.pk}/")
    assert page.status_code == 200
    assert b"rate-limit-link" not in page.content


@pytest.mark.django_db
@pytest.mark.usefixtures("known")
def test_what_if_compares_it(viewer: Client) -> None:
    rows.make_fleet()
    answer = viewer.get("/availability/shop/what-if/?days=7")
    first = answer.context["found"].ways[0]
    assert (first.method, first.text) == ("toy", TOY.short)
