"""Write steps, events, commands and chart samples of the sample's rebuilds."""

import random
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dbops.engine.phrases import Phrase, phrase
from dbops.engine.rebuilds.metrics import number_at, spacing
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.states import Level, StepState
from dbops.models import ExecutedCommand, Rebuild, RebuildEvent, RebuildSample, RebuildStep
from dbops.sample.generate.clusters import MIB, SampleCluster

ON_THE_SOURCE = {"release"}
#: Steps without events if the copy was never complete.
SKIPPED_AFTER = {StepState.FAILED, StepState.CANCELLED}


@dataclass(frozen=True, slots=True)
class Ending:
    """An early end of a rebuild: the step, the kind of end, and the completed share of the step."""

    step: str = ""
    state: StepState = StepState.DONE
    share: float = 1.0


def seconds_of(plan: Plan, cluster: SampleCluster, dice: random.Random) -> dict[str, float]:
    """Return the duration of each step of a plan."""
    size = plan.bytes_to_copy or cluster.data_bytes
    stream = size / cluster.rate * dice.uniform(0.92, 1.12)
    known = {
        "swap-datadir": dice.uniform(5, 28),
        "pause": 0.02,
        "stream": stream,
        "release": dice.uniform(0.1, 0.4),
        "prepare": 25 + stream * dice.uniform(0.035, 0.06),
        "set-ownership": dice.uniform(2, 14),
        "start": dice.uniform(7, 35),
        "catch-up": 15 + stream * dice.uniform(0.07, 0.14),
        "certify": dice.uniform(0.4, 0.9),
        "verify": dice.uniform(2.1, 3.4),
        "clean-up": dice.uniform(6, 60),
    }
    return {step.name: known.get(step.name, dice.uniform(0.5, 2.2)) for step in plan.steps}


def write_steps(rebuild: Rebuild, plan: Plan, taken: dict[str, float], ending: Ending) -> dict[str, RebuildStep]:
    """Write the steps of a rebuild started at ``started_at``; return them by name."""
    assert rebuild.started_at  # noqa: S101 - for the type checker
    at, broken, rows = rebuild.started_at + timedelta(seconds=1), False, []
    for position, step in enumerate(plan.steps):
        row = RebuildStep(rebuild=rebuild, position=position, name=step.name, title=step.title, state=StepState.DONE)
        row.predicted_seconds = step.predicted_seconds
        rows.append(row)
        if broken and step.name != "clean-up":
            row.state = StepState.SKIPPED
            continue
        is_end = step.name == ending.step
        row.started_at = at
        at += timedelta(seconds=taken[step.name] * (ending.share if is_end else 1))
        row.finished_at = at
        if is_end:
            row.state, broken = ending.state, True
        if step.name == "stream":
            _write_copy(row, plan, ending.share if is_end else 1.0)
        elif step.name == "prepare":
            row.result = {"exit_statuses": {"prepare": 137 if is_end else 0}, "tails": {}}
    RebuildStep.objects.bulk_create(rows)
    return {row.name: row for row in rows}


def _write_copy(row: RebuildStep, plan: Plan, share: float) -> None:
    assert row.started_at  # noqa: S101 - for the type checker
    assert row.finished_at  # noqa: S101
    total = plan.bytes_to_copy or 0
    copied, seconds = int(total * share), (row.finished_at - row.started_at).total_seconds()
    row.progress = {
        "bytes": copied,
        "total_bytes": total,
        "percent": 100.0 * share,
        "average_bytes_per_second": copied / seconds,
    }
    is_whole = share == 1.0
    statuses = dict.fromkeys(("source backup", "transport", "unpack"), 0)
    if not is_whole:
        statuses = {"source backup": 130, "transport": 255, "unpack": 143}
    tails = {"source": "completed OK!" if is_whole else "", "transport": "", "unpack": ""}
    row.result = {"exit_statuses": statuses, "tails": tails, "bytes": copied, "seconds": seconds}


def certificate_of(plan: Plan) -> dict[str, Any]:
    """Return the record of a complete step ``certify``."""
    return {
        "compared_with": plan.source.name,
        "is_copied": True,
        "parts": ["openable", "inventory", "rows"],
        "objects": {
            "account": 14,
            "event": 2,
            "grant": 21,
            "routine": 9,
            "schema": 3,
            "table": 412,
            "trigger": 5,
            "view": 18,
        },
        "opened": 456,
        "rows": {"tables": 411, "count": 3_918_204, "ranges": 57, "full": False},
        "left_out": {
            "its type has no exact text": {
                "count": 1,
                "examples": [f"{plan.source.name.split('-')[0]}.prices.weight (float)"],
            }
        },
        "accepted": [],
        "unchecked": {},
    }


def write_history(
    rebuild: Rebuild, plan: Plan, steps: dict[str, RebuildStep], dice: random.Random, last_line: str
) -> None:
    """Write events, commands and samples. ``last_line`` is the last event."""
    done_lines = _done_lines(plan, dice)
    asked: str = phrase("Requested by {by}: {reason}", by=rebuild.requested_by, reason=rebuild.reason)
    lines = [(rebuild.requested_at, "", Level.INFO, asked)]
    assert rebuild.started_at  # noqa: S101 - for the type checker
    assert rebuild.finished_at  # noqa: S101
    lines.append((rebuild.started_at, "", Level.INFO, phrase("Started.")))
    for row in steps.values():
        if row.finished_at and row.state == StepState.DONE and row.name in done_lines:
            lines.append((row.finished_at, row.name, Level.INFO, done_lines[row.name]))
    if cleaned := steps.get("clean-up"):
        is_good = rebuild.status == "succeeded"
        removed = phrase("The {what} of {target} is removed.", what=phrase("old data"), target=plan.target.name)
        text = removed if is_good else done_lines["release"]
        lines.append((cleaned.finished_at or rebuild.finished_at, "clean-up", Level.INFO, text))
    lines += _milestones(steps.get("stream"), plan)
    if rebuild.cancel_requested_at:
        by = phrase("Cancel requested by {by}.", by=rebuild.cancel_requested_by)
        lines.append((rebuild.cancel_requested_at, "", Level.WARNING, by))
    if rebuild.error.get("cause"):
        lines.append((rebuild.finished_at - timedelta(seconds=1), "", Level.ERROR, rebuild.error["cause"]))
    lines.append((rebuild.finished_at, "", Level.INFO if rebuild.status == "succeeded" else Level.ERROR, last_line))
    hosts = {True: plan.source.host, False: plan.target.host}
    RebuildEvent.objects.bulk_create(
        RebuildEvent(
            rebuild=rebuild, at=at, step=step, host=hosts[step in ON_THE_SOURCE] if step else "", level=level, text=text
        )
        for at, step, level, text in sorted(lines, key=lambda line: line[0])
    )
    ExecutedCommand.objects.bulk_create(_commands(rebuild, plan, steps, dice))


def _done_lines(plan: Plan, dice: random.Random) -> dict[str, Phrase]:
    """Return the line of each step that is done."""
    target, source, path = plan.target.name, plan.source.name, plan.aside_path
    uuid_, lsn = uuid.UUID(int=dice.getrandbits(128)), dice.randrange(90_000_000_000, 99_000_000_000)
    server_id = plan.target.server_id or plan.target.configured_server_id
    seen, moved = phrase("server id {server_id}", server_id=server_id), phrase("Its old data is at {path}.", path=path)
    released = phrase("{source} is released: the run's key and credentials are removed.", source=source)
    hosts = {"host": plan.target.host, "source": plan.source.host}
    primary = plan.primary.name
    return {
        "preflight": phrase("{target} matches the plan: {seen}.", target=target, seen=seen),
        "open-access": phrase("{host} reaches {source} over SSH.", **hosts),
        "swap-datadir": phrase("{target} is stopped. {old_data}", target=target, old_data=moved),
        "stream": phrase("The copy is complete: backup {uuid}, up to LSN {last_lsn}.", uuid=uuid_, last_lsn=lsn),
        "release": released,
        "start": phrase("{target} serves with server id {server_id}.", target=target, server_id=server_id),
        "catch-up": phrase("{target} has caught up with {leader}.", target=target, leader=source),
        "repoint": phrase("{target} replicates from the primary {primary}.", target=target, primary=primary),
        "certify": phrase("All {count} tables of {target} were opened and read.", count=456, target=target),
        "verify": phrase("{target} replicates from {source} and keeps up.", target=target, source=primary),
        "find-old-data": phrase("The old data is at {path}.", path=path),
        "rollback": phrase("The old data is back at {datadir}.", datadir=plan.target.datadir),
    }


def _milestones(row: RebuildStep | None, plan: Plan) -> list[tuple[datetime, str, Level, str]]:
    """Return the backup tool's output during the copy."""
    if row is None or not row.started_at or not row.finished_at:
        return []
    length, tool = row.finished_at - row.started_at, plan.programs.get("source.backup", "").rpartition("/")[2]
    said = [(0.002, f"{tool} based on server {plan.source.version}: connected to {plan.source.name}")]
    if row.state == StepState.DONE:
        said += [(0.985, "Finished copying InnoDB data files"), (0.993, "Executing BACKUP STAGE BLOCK_COMMIT" if
                 plan.flavor == "mariadb" else "Executing LOCK INSTANCE FOR BACKUP"), (0.999, "completed OK!")]  # fmt: skip
    return [(row.started_at + length * share, "stream", Level.INFO, text) for share, text in said]


def _commands(
    rebuild: Rebuild, plan: Plan, steps: dict[str, RebuildStep], dice: random.Random
) -> Iterator[ExecutedCommand]:
    hosts = {party.name: party.host for party in (plan.target, plan.source, plan.primary)}
    for planned in plan.steps:
        row = steps[planned.name]
        if not row.started_at or not row.finished_at:
            continue
        is_long = planned.name in ("stream", "prepare")
        share = (row.finished_at - row.started_at) / max(1, len(planned.commands))
        for number, command in enumerate(planned.commands):
            start = row.started_at if is_long else row.started_at + share * number
            end = row.finished_at if is_long else start + share * dice.uniform(0.5, 0.9)
            is_bad = row.state in SKIPPED_AFTER
            yield ExecutedCommand(
                rebuild=rebuild,
                key=f"{planned.name}.{number}",
                step=planned.name,
                place=hosts.get(command.place, command.place),
                text=command.text,
                started_at=start,
                finished_at=end,
                exit_status=(137 if row.state == StepState.FAILED else 130) if is_bad else 0,
                output="completed OK!\n" if is_long and not is_bad else "",
            )


def write_samples(rebuild: Rebuild, steps: dict[str, RebuildStep], cluster: SampleCluster, dice: random.Random) -> None:
    """Write the chart samples of copy and preparation."""
    assert rebuild.started_at  # noqa: S101 - for the type checker
    rows: list[RebuildSample] = []
    for name in ("stream", "prepare"):
        row = steps.get(name)
        if row and row.started_at and row.finished_at:
            rows += _samples(rebuild, row, rebuild.started_at, cluster, dice)
    unique = {row.number: row for row in rows}
    RebuildSample.objects.bulk_create(unique.values(), batch_size=1000)


def _samples(
    rebuild: Rebuild, row: RebuildStep, begin: datetime, cluster: SampleCluster, dice: random.Random
) -> Iterator[RebuildSample]:
    assert row.started_at  # noqa: S101 - for the type checker
    assert row.finished_at  # noqa: S101
    first, last = ((moment - begin).total_seconds() for moment in (row.started_at, row.finished_at))
    total = row.progress.get("bytes") if row.name == "stream" else int(cluster.rate * (last - first))
    pace, done, lag, at = 1.0, 0.0, 0.4, first
    weights: list[tuple[float, float, float]] = []
    while at < last:
        pace += (1 - pace) * 0.03 + dice.uniform(-0.035, 0.035)
        lag = max(0.0, lag + (1.5 - lag) * 0.02 + dice.uniform(-0.4, 0.4))
        done += pace * spacing(at)
        weights.append((at, done, round(lag, 1)))
        at += spacing(at)
    for at, share, lag in weights:
        count: Any = int((total or 0) * share / done)
        yield RebuildSample(
            rebuild=rebuild,
            number=number_at(at),
            at=begin + timedelta(seconds=at),
            step=row.name,
            bytes=count if row.name == "stream" else None,
            disk_read_bytes=None if row.name == "stream" else int(count * 0.8),
            disk_written_bytes=max(0, count - dice.randrange(64 * MIB)),
            source_lag_seconds=lag if row.name == "stream" else None,
        )
