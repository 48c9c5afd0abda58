"""Compare the confirmed plan with the current plan to refuse a stale confirmation."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import zip_longest

from dbops.engine.phrases import joined, phrase
from dbops.engine.rebuilds.plan import Finding, Plan, PlannedCommand, PlannedInstance, PlannedStep
from dbops.engine.states import Severity

#: Fields of a party whose own name is unclear, or differs from the page's wording.
WORDS = {
    "address": phrase("database address"),
    "configured_server_id": phrase("server id in its option file"),
    "datadir": phrase("data directory"),
    "datadir_identity": phrase("device and inode of the data directory"),
    "host_key_fingerprint": phrase("host key"),
    "is_answering": phrase("server answers"),
    "local_address": phrase("local address of its host"),
    "machine": phrase("name and machine id of its host"),
    "os_user": phrase("system user"),
    "ssh_address": phrase("SSH address"),
    "ssh_port": phrase("SSH port"),
    "ssh_user": phrase("SSH user"),
    "defaults_file": phrase("option file"),
}
NOTHING = phrase("nothing")
INCLUDED, LEFT_OUT = phrase("included"), phrase("not included")
#: A smaller change of a prediction does not count: time has passed since the page was shown.
SAME_TIME = timedelta(minutes=5)
SEVERITIES = {Severity.REFUSAL: phrase("refusal"), Severity.WARNING: phrase("warning"), Severity.OK: phrase("ok")}
_WORST_FIRST = (Severity.REFUSAL, Severity.WARNING, Severity.OK)


class ChangeFormat(StrEnum):
    """The format of the two values of a change on a page."""

    TEXT = "text"
    COMMAND = "command"
    BYTES = "bytes"
    SECONDS = "seconds"
    MOMENT = "moment"


@dataclass(frozen=True, slots=True)
class PlanChange:
    """One difference. ``counts``: part of the confirmation; other values change on their own and refuse nothing.

    ``key`` names it for code: ``target.datadir``, ``finding.target.space``, ``step.stream.removed``, ``command.stream.1``.
    ``then`` and ``now`` are ``None`` if the value is unknown or missing.
    """

    key: str
    what: str
    then: object
    now: object
    unit: ChangeFormat = ChangeFormat.TEXT
    counts: bool = True


@dataclass(frozen=True, slots=True)
class ShownPlan:
    """What a person confirmed: the plan, and the start option with its predicted times."""

    plan: Plan
    start: str = ""
    starts_at: datetime | None = None
    finishes_at: datetime | None = None


def changes(then: ShownPlan, now: ShownPlan) -> tuple[PlanChange, ...]:
    """Return all differences, those that count first: machines, destroyed data, findings, steps and commands, then the rest."""
    found = [
        *_of_start(then, now),
        *_of_party("target", phrase("Target"), then.plan.target, now.plan.target),
        *_of_party("source", phrase("Source"), then.plan.source, now.plan.source),
        *_of_party("primary", phrase("Primary"), then.plan.primary, now.plan.primary),
        *_of_data(then.plan, now.plan),
        *_of_findings(then.plan.findings, now.plan.findings),
        *_of_steps(then.plan.steps, now.plan.steps),
        *_by_themselves(then, now),
    ]
    return tuple(sorted(found, key=lambda change: not change.counts))


def _change(
    key: str, what: str, then: object, now: object, unit: ChangeFormat = ChangeFormat.TEXT, *, counts: bool = True
) -> Iterator[PlanChange]:
    if then != now:
        yield PlanChange(key, what, then, now, unit, counts)


def _of_start(then: ShownPlan, now: ShownPlan) -> Iterator[PlanChange]:
    yield from _change("start", phrase("Start option"), then.start or NOTHING, now.start or NOTHING)


def _of_party(key: str, who: str, then: PlannedInstance, now: PlannedInstance) -> Iterator[PlanChange]:
    for item in fields(PlannedInstance):
        words = WORDS.get(item.name, item.name.replace("_", " "))
        yield from _change(
            f"{key}.{item.name}",
            phrase("{who}: {words}", who=who, words=words),
            _said(getattr(then, item.name)),
            _said(getattr(now, item.name)),
        )


def _said(value: object) -> str | None:
    if isinstance(value, bool):
        return phrase("yes") if value else phrase("no")
    return None if value in (None, "") else str(value)


def _of_data(then: Plan, now: Plan) -> Iterator[PlanChange]:
    yield from _change("method", phrase("Method"), then.method, now.method)
    yield from _change("archive", phrase("Backup"), _file(then), _file(now))
    yield from _change("destroys", phrase("Data loss"), joined(then.destroys), joined(now.destroys))
    yield from _change(
        "aside_path", phrase("Path of the old data"), then.aside_path or NOTHING, now.aside_path or NOTHING
    )
    yield from _change("keep_old_data", phrase("Keep old data"), _said(then.keep_old_data), _said(now.keep_old_data))
    yield from _change("replication", phrase("Replication of the target"), _kept(then), _kept(now))
    counts = then.pause_source != now.pause_source
    yield from _change(
        "pause_source",
        phrase("Replication on {source}", source=now.source.name),
        _pause(then),
        _pause(now),
        counts=counts,
    )


def _file(plan: Plan) -> str:
    return (
        phrase("{path} of backup run {run}", path=plan.archive.path, run=plan.archive.run) if plan.archive else NOTHING
    )


def _kept(plan: Plan) -> str:
    kept = plan.replication
    if kept is None:
        return NOTHING
    return ", ".join(f"{one.name}: {one.before} -> {one.after}" for one in kept.settings)


def _pause(plan: Plan) -> str:
    reason = plan.pause_reason
    return (
        phrase("paused during the copy: {reason}", reason=reason)
        if plan.pause_source
        else phrase("continues: {reason}", reason=reason)
    )


def _of_findings(then: Iterable[Finding], now: Iterable[Finding]) -> Iterator[PlanChange]:
    """Compare findings by code, the worst current one first. Leave out passed ones; those that differ only in a number do not count."""
    before, after = _by_code(then), _by_code(now)
    codes = sorted({**after, **before}, key=lambda code: _rank(after.get(code) or before[code]))
    for code in codes:
        old, new = before.get(code, []), after.get(code, [])
        title = (new or old)[0].title
        if all(finding.severity is Severity.OK for finding in (*old, *new)):
            continue
        counts = _accepted(old) != _accepted(new)
        yield from _change(
            f"finding.{code}", phrase("Check “{title}”", title=title), _as_text(old), _as_text(new), counts=counts
        )


def _by_code(findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}
    for finding in findings:
        found.setdefault(finding.code, []).append(finding)
    return found


def _rank(findings: list[Finding]) -> int:
    return min(_WORST_FIRST.index(finding.severity) for finding in findings)


def _accepted(findings: list[Finding]) -> list[str]:
    return sorted(f"{item.severity}: {item.accepted_as}" for item in findings if item.severity is not Severity.OK)


def _as_text(findings: list[Finding]) -> str | None:
    return (
        joined(
            phrase("{severity}: {seen}", severity=SEVERITIES[finding.severity], seen=finding.seen)
            for finding in findings
        )
        or None
    )


def _of_steps(then: Iterable[PlannedStep], now: Iterable[PlannedStep]) -> Iterator[PlanChange]:
    before, after = ({step.name: step for step in steps} for steps in (then, now))
    for name, step in before.items():
        if name not in after:
            yield PlanChange(f"step.{name}.removed", phrase("Step “{title}”", title=step.title), INCLUDED, LEFT_OUT)
    for name, step in after.items():
        if name not in before:
            yield PlanChange(f"step.{name}.added", phrase("Step “{title}”", title=step.title), LEFT_OUT, INCLUDED)
        else:
            yield from _of_commands(before[name], step)
    both = [name for name in before if name in after]
    if both != [name for name in after if name in before]:
        yield PlanChange("steps", phrase("Order of the steps"), ", ".join(before), ", ".join(after))


def _of_commands(then: PlannedStep, now: PlannedStep) -> Iterator[PlanChange]:
    for number, (old, new) in enumerate(zip_longest(then.commands, now.commands), 1):
        yield from _change(
            f"command.{now.name}.{number}",
            phrase("Command {number} of “{title}”", number=number, title=now.title),
            _command(old),
            _command(new),
            ChangeFormat.COMMAND,
        )


def _command(command: PlannedCommand | None) -> str | None:
    return f"[{command.place}] {command.text}" if command else None


def _by_themselves(then: ShownPlan, now: ShownPlan) -> Iterator[PlanChange]:
    old, new = then.plan, now.plan
    for key, what, before, after, unit in (
        ("bytes_to_copy", phrase("To copy"), old.bytes_to_copy, new.bytes_to_copy, ChangeFormat.BYTES),
        (
            "predicted_seconds",
            phrase("Expected duration"),
            old.predicted_seconds,
            new.predicted_seconds,
            ChangeFormat.SECONDS,
        ),
        (
            "prepare_memory_bytes",
            phrase("Memory to prepare"),
            old.prepare_memory_bytes,
            new.prepare_memory_bytes,
            ChangeFormat.BYTES,
        ),
        (
            "prepare_options",
            phrase("Prepare options"),
            " ".join(old.prepare_options),
            " ".join(new.prepare_options),
            ChangeFormat.TEXT,
        ),
        ("cipher", phrase("Ciphers"), old.cipher, new.cipher, ChangeFormat.TEXT),
        ("parallel", phrase("Copy threads"), str(old.parallel), str(new.parallel), ChangeFormat.TEXT),
        (
            "unpack_threads",
            phrase("Unpack threads"),
            str(old.unpack_threads or old.parallel),
            str(new.unpack_threads or new.parallel),
            ChangeFormat.TEXT,
        ),
    ):
        yield from _change(key, what, before, after, unit, counts=False)
    yield from _of_moment("starts_at", phrase("Expected start"), then.starts_at, now.starts_at)
    yield from _of_moment("finishes_at", phrase("Expected end"), then.finishes_at, now.finishes_at)


def _of_moment(key: str, what: str, then: datetime | None, now: datetime | None) -> Iterator[PlanChange]:
    if not (then and now and abs(now - then) < SAME_TIME):
        yield from _change(key, what, then, now, ChangeFormat.MOMENT, counts=False)
