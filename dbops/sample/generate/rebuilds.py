"""Write the sample's rebuilds, each with a real plan and at a time when its source was free."""

import random
import uuid
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from django.contrib.auth.models import User

from dbops.engine.errors import Cancelled, RemoteFailure
from dbops.engine.facts.instance import InstanceFacts, to_record
from dbops.engine.methods import DEFAULT_METHOD, FOLLOW_UPS, METHODS
from dbops.engine.phrases import joined, phrase
from dbops.engine.planning.planner import build_plan
from dbops.engine.rebuilds.follow_ups import ROLLBACK, EndedRebuild, plan_follow_up, remembered, rollback_option
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.schedule.calendar import Interval
from dbops.engine.states import Status, StepState
from dbops.loaders.plan_inputs import plan_inputs_of
from dbops.models import BackupRun, Instance, Rebuild, RebuildStep
from dbops.sample.generate.clusters import CLUSTERS, SampleCluster
from dbops.sample.generate.copying import Ending, certificate_of, seconds_of, write_history, write_samples, write_steps
from dbops.sample.generate.facts import without_server
from dbops.sample.generate.runs import put_off
from dbops.sample.generate.states import Spell
from dbops.sample.generate.story import GONE, HALTED, INCIDENTS, LATE, REFUSED, Incident, moment

MOMENT = timedelta(seconds=2)
ROLLED_BACK_AFTER = timedelta(minutes=21)
EXPIRES = timedelta(days=1)
ENDINGS = {
    "stream": Ending("stream", StepState.CANCELLED, 0.34),
    "prepare": Ending("prepare", StepState.FAILED, 0.62),
}


@dataclass(slots=True)
class MadeRebuild:
    """State while generating the rebuilds in order."""

    instances: dict[str, Instance]
    facts: dict[str, InstanceFacts]
    people: dict[str, User]
    runs: list[BackupRun]
    begin: datetime
    now: datetime
    dice: random.Random
    spells: dict[str, list[Spell]] = field(default_factory=dict)
    busy: dict[str, list[Interval]] = field(default_factory=dict)
    broken: dict[str, Spell] = field(default_factory=dict)

    def note(self, instance: str, start: datetime, end: datetime, state: str, because: str) -> None:
        self.spells.setdefault(instance, []).append(Spell(start, end, state, because))


def make_rebuilds(past: MadeRebuild) -> None:
    """Write all rebuilds, oldest first, and record when their targets were unhealthy."""
    for incident in INCIDENTS:
        lost = moment(past.now, incident.days_ago, incident.clock)
        if lost >= past.begin:
            _rebuild(past, incident, lost)


def _rebuild(past: MadeRebuild, incident: Incident, lost: datetime) -> None:
    cluster = next(item for item in CLUSTERS if incident.target in item.instances)
    asked = lost + timedelta(minutes=incident.asked_after, seconds=past.dice.uniform(4, 50))
    plan = _plan(past, incident, asked, uid := uuid.UUID(int=past.dice.getrandbits(128)).hex[:16], cluster)
    source = past.instances[incident.source]
    started = _when_free(past, source, asked + MOMENT)
    row = Rebuild.objects.create(
        uid=uid,
        request_key=str(uuid.UUID(int=past.dice.getrandbits(128))),
        target=past.instances[incident.target],
        source=source,
        method=plan.method,
        status=Status(incident.status),
        reason=incident.reason,
        requested_by=past.people[incident.by],
        requested_at=asked,
        started_at=started,
        expires_at=asked + EXPIRES,
        plan=to_record(plan),
        plan_fingerprint=plan.fingerprint,
        revision=1,
    )
    pending_status = ENDINGS.get(incident.ends_in, Ending())
    steps = write_steps(row, plan, seconds_of(plan, cluster, past.dice), pending_status)
    _end(row, plan, steps, incident)
    busy = Interval(started, steps["release"].finished_at or steps["clean-up"].finished_at or started)
    past.busy.setdefault(incident.source, []).append(busy)
    put_off(past.runs, source.pk, busy, past.now)
    write_history(row, plan, steps, past.dice, _last_line(row))
    write_samples(row, steps, cluster, past.dice)
    _note_states(past, incident, lost, row, steps)
    if row.status == Status.FAILED:
        _put_back(past, row, plan, steps)


def _plan(past: MadeRebuild, incident: Incident, asked: datetime, uid: str, cluster: SampleCluster) -> Plan:
    """Return the engine's plan with the target and data size of that time."""
    names = incident.target, incident.source
    found = plan_inputs_of(past.instances[names[0]], past.instances[names[1]], run_id=uid)
    facts = past.facts[incident.target]
    if incident.state == GONE or incident.target in past.broken:
        facts = without_server(facts, REFUSED)
    weeks = (past.now - asked).days / 7
    size = int(cluster.data_bytes * (1 - cluster.growth) ** weeks)
    source = past.facts[incident.source]
    assert source.datadir  # noqa: S101 - for the type checker
    source = replace(source, datadir=replace(source.datadir, data_bytes=size))
    plan = build_plan(
        replace(found, target=replace(found.target, facts=facts), source=replace(found.source, facts=source)),
        METHODS[DEFAULT_METHOD],
    )
    read = {name: asked - timedelta(seconds=past.dice.uniform(2, 14)) for name in plan.facts_observed_at}
    return replace(plan, facts_observed_at=read)


def _when_free(past: MadeRebuild, source: Instance, at: datetime) -> datetime:
    """Return the first time at which no backup and no other rebuild uses the source."""
    used = [Interval(run.started_at, run.finished_at or past.now) for run in past.runs
            if run.instance_id == source.pk and run.started_at]  # fmt: skip
    for span in sorted([*used, *past.busy.get(source.name, [])], key=lambda one: one.start):
        if span.start <= at < span.end:
            at = span.end + MOMENT
    return at


def _end(row: Rebuild, plan: Plan, steps: dict[str, RebuildStep], incident: Incident) -> None:
    target, ended = plan.target.name, max(step.finished_at for step in steps.values() if step.finished_at)
    row.finished_at = ended + timedelta(milliseconds=400)
    row.checkpoint = {
        "touched": True,
        "aside_path": plan.aside_path,
        "aside_identity": plan.target.datadir_identity,
        "new_identity": f"{plan.target.datadir_identity}7",
        "copy_run": row.uid,
        "stream.bytes": steps["stream"].progress.get("bytes"),
    }
    if row.status == Status.SUCCEEDED:
        row.checkpoint |= {"verified": True, "certificate": certificate_of(plan)}
        row.outcome = phrase(
            "{target} serves, replicates from {source} and has caught up.", target=target, source=plan.primary.name
        )
    else:
        row.pending_status = row.status
        row.outcome = joined(
            (
                phrase("The old data of {target} is at {path}.", target=target, path=plan.aside_path),
                phrase(
                    "The copy at {datadir} is not usable as it is. The server is stopped.",
                    datadir=plan.target.datadir,
                ),
            )
        )
    if row.status == Status.CANCELLED:
        row.cancel_requested_at = steps[incident.ends_in].finished_at
        row.cancel_requested_by = incident.by
        row.error = Cancelled(
            "rebuild.cancelled", phrase("Rebuilding"), cause=phrase("a user requested it")
        ).as_record()
    elif row.status == Status.FAILED:
        row.error = RemoteFailure(
            "host.job",
            phrase("Preparing the copy"),
            cause=phrase("exit status 137: the kernel killed the process because the host was out of memory"),
            state=row.outcome,
        ).as_record()
    row.save()


def _last_line(row: Rebuild) -> str:
    ends = {Status.SUCCEEDED: phrase("succeeded"), Status.CANCELLED: phrase("been cancelled")}
    ended = ends.get(Status(row.status), phrase("failed"))
    return phrase("The {noun} has {ended}. {outcome}", noun=phrase("rebuild"), ended=ended, outcome=row.outcome)


def _note_states(
    past: MadeRebuild, incident: Incident, lost: datetime, row: Rebuild, steps: dict[str, RebuildStep]
) -> None:
    """Record the target's states: the problem, then no server, then a lagging server until it has caught up."""
    target, stopped_at = incident.target, steps["swap-datadir"].started_at
    assert stopped_at  # noqa: S101 - for the type checker
    before = past.broken.pop(target, None)
    if before:
        past.note(target, before.start, stopped_at, before.state, before.because)
    elif incident.state:
        past.note(target, lost, stopped_at, incident.state, incident.because)
    assert row.finished_at  # noqa: S101 - for the type checker
    serves, caught_up = steps["start"].finished_at, steps["catch-up"].finished_at
    if row.status == Status.SUCCEEDED and serves and caught_up:
        past.note(target, stopped_at, serves, GONE, REFUSED)
        past.note(target, serves, caught_up, LATE, f"lags by {(caught_up - serves).total_seconds() * 9:.0f} s")
    else:
        past.broken[target] = Spell(stopped_at, past.now, GONE, REFUSED)


def _put_back(past: MadeRebuild, row: Rebuild, plan: Plan, steps: dict[str, RebuildStep]) -> None:
    """Roll back a failed rebuild: the target serves its old data with its old problem."""
    assert row.finished_at  # noqa: S101 - for the type checker
    ended = EndedRebuild(
        row.uid, Status(row.status), row.checkpoint, {name: StepState(one.state) for name, one in steps.items()}
    )
    plan = plan_follow_up(plan, rollback_option(ended), FOLLOW_UPS[ROLLBACK].steps)
    asked = row.finished_at + ROLLED_BACK_AFTER
    following = Rebuild.objects.create(
        uid=uuid.UUID(int=past.dice.getrandbits(128)).hex[:16],
        request_key=str(uuid.UUID(int=past.dice.getrandbits(128))),
        target=row.target,
        source=row.source,
        follows=row,
        method=plan.method,
        status=Status.SUCCEEDED,
        reason="Half the reads are better than none until tomorrow",
        requested_by=row.requested_by,
        requested_at=asked,
        started_at=asked + MOMENT,
        expires_at=asked + EXPIRES,
        plan=to_record(plan),
        plan_fingerprint=plan.fingerprint,
        checkpoint=remembered(ended) | {"rolled_back": True},
        outcome=phrase(
            "{target} serves its old data again; replication is at its old position.", target=row.target.name
        ),
        revision=1,
    )
    taken = {step.name: past.dice.uniform(0.6, 24) for step in plan.steps}
    done = write_steps(following, plan, taken, Ending())
    following.finished_at = max(step.finished_at for step in done.values() if step.finished_at)
    following.save(update_fields=["finished_at"])
    write_history(following, plan, done, past.dice, _last_line(following))
    gone = past.broken.pop(row.target.name)
    past.note(row.target.name, gone.start, following.finished_at, gone.state, gone.because)
    past.broken[row.target.name] = Spell(
        following.finished_at, past.now, HALTED, "Can't find record in 'invoices' (1032)"
    )
