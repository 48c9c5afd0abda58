"""``manage.py rebuild``: the same verbs as a click. Exit status: 0 succeeded, 1 failed, 2 refused, 3 cancelled."""

import json
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC
from math import isfinite
from typing import Any

from django.core.management.base import CommandError, CommandParser

from dbops.engine.errors import Refused
from dbops.engine.facts.instance import to_record
from dbops.engine.methods import DEFAULT_METHOD, METHODS
from dbops.engine.rebuilds.follow_ups import RESUME, ROLLBACK
from dbops.engine.rebuilds.plan import Plan, PlannedStep
from dbops.engine.schedule.backup_windows import TimeEstimate
from dbops.engine.schedule.eligibility import EligibilityState
from dbops.engine.schedule.start_option_keys import StartMode
from dbops.engine.states import Status, StepState
from dbops.engine.tuning.stream_rate import MIB
from dbops.management.accounts import actor_named
from dbops.management.command import DbopsCommand
from dbops.models import Instance, Rebuild, RebuildStep
from dbops.operations.approvals import approve_rebuild, decline_rebuild, override_approval
from dbops.operations.follow_ups import request_follow_up
from dbops.operations.offers import choices_of, has_worked
from dbops.operations.rate_limit import can_be_held, set_stream_rate
from dbops.operations.rebuilds import (
    cancel_rebuild,
    force_fail_rebuild,
    move_first,
    plan_rebuild,
    request_rebuild,
    set_priority,
)
from dbops.operations.start_options import StartOptions, offered_start_options
from dbops.queries.rebuilds.pages import expected_start_of

EXIT_STATUS = {Status.SUCCEEDED: 0, Status.FAILED: 1, Status.EXPIRED: 1, Status.LOST: 1, Status.CANCELLED: 3}
REFUSED = 2
FOLLOW_SECONDS = 0.5
APPROVALS = {"approve": approve_rebuild, "decline": decline_rebuild, "override-approval": override_approval}
APPROVAL_HELP = {
    "approve": "approve the rebuild of this instance that waits for it, as another operator than who asked for it",
    "decline": "decline it, with --reason",
    "override-approval": "emergency: start it without approval, with --reason",
}


class Command(DbopsCommand):
    help = "Rebuild a replica from a backup source, or show the plan."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("target", help="name of the instance to rebuild")
        parser.add_argument("--reason", default="", help="why; written into the audit log")
        parser.add_argument("--source", help="name of the instance to read (default: the best backup source)")
        parser.add_argument(
            "--method", choices=list(METHODS), default=DEFAULT_METHOD, help="the way to rebuild (default: %(default)s)"
        )
        parser.add_argument(
            "--keep-old-data", action="store_true", help="keep the old data directory after verification"
        )
        parser.add_argument("--plan", action="store_true", help="show the plan and change nothing")
        parser.add_argument(
            "--start",
            default=StartMode.SOON.value,
            help="the key of a way to start that --plan shows, or at:20261231T220000Z (default: as soon as it can)",
        )
        parser.add_argument(
            "--expires-hours", type=int, help="expire when it could not start within so many hours (1 to 168)"
        )
        parser.add_argument(
            "--with",
            dest="with_target",
            metavar="INSTANCE",
            help="share one read of the source with the rebuild of this other instance, which waits or has just begun",
        )
        parser.add_argument(
            "--rate",
            type=float,
            metavar="MIB",
            help="hold the stream of this instance's rebuild to so many MiB/s; 0: full speed",
        )
        parser.add_argument("--priority", type=int, help="give the queued rebuild of this instance another priority")
        parser.add_argument("--first", action="store_true", help="move the queued rebuild to the front of its line")
        parser.add_argument("--cancel", action="store_true", help="cancel the unfinished rebuild of this instance")
        parser.add_argument(
            "--roll-back", action="store_true", help="put the old data of the last, failed rebuild back and start it"
        )
        parser.add_argument(
            "--resume", action="store_true", help="go on with the copy of the last, failed rebuild where that is safe"
        )
        parser.add_argument(
            "--again",
            action="store_true",
            help="plan the last rebuild that did not succeed again: same source, method, old data, rate and reason",
        )
        for verb, text in APPROVAL_HELP.items():
            parser.add_argument(f"--{verb}", action="store_true", help=text)
        parser.add_argument("--force-fail", action="store_true", help="end a lost rebuild without its hosts")
        parser.add_argument("--follow", action="store_true", help="wait for the end and print what happens")
        parser.add_argument("--json", action="store_true", help="one JSON object a line; the last one is the result")
        parser.add_argument("--as", dest="user", help="operator's name (default: cli-<login name>, made when missing)")

    def handle(self, *args: Any, **options: Any) -> None:
        self.as_json = options["json"]
        try:
            target, source = self._instance(options["target"]), self._source(options["source"])
            if options["cancel"]:
                self._cancel(target, options["user"])
                return
            if options["rate"] is not None:
                self._set_rate(target, options["user"], options["rate"])
                return
            if options["first"] or options["priority"] is not None:
                self._move(target, options["user"], options["priority"])
                return
            for verb, decide in APPROVALS.items():
                if options[verb.replace("-", "_")]:
                    self._decide(target, decide, options["user"], options["reason"])
                    return
            if options["force_fail"]:
                self._give_up(target, options["user"], options["reason"])
                return
            if options["roll_back"] or options["resume"]:
                self._end_with(self._follow_up(target, ROLLBACK if options["roll_back"] else RESUME, options), options)
                return
            last = self._newest(target) if options["again"] else None
            if last is not None:
                before = choices_of(last)
                source = before.source
                options |= {"method": before.method, "keep_old_data": before.keep_old_data}
                options["reason"] = options["reason"] or before.reason
            method = options["method"]
            plan = plan_rebuild(target=target, source=source, method=method, keep_old_data=options["keep_old_data"])
            if options["plan"]:
                ways = offered_start_options(
                    target, self._instance(plan.source.name), method=method, key=options["start"]
                )
                self._show_plan(plan, ways)
                sys.exit(0 if plan.is_possible else REFUSED)
            rebuild = request_rebuild(
                actor=actor_named(options["user"]),
                target=target,
                source=self._instance(plan.source.name),
                typed_name=target.name,
                reason=options["reason"],
                fingerprint=plan.fingerprint,
                request_key=secrets.token_hex(16),
                method=method,
                keep_old_data=options["keep_old_data"],
                start=options["start"],
                expires_hours=options["expires_hours"],
                joins=self._unfinished(options["with_target"]) if options["with_target"] else None,
                repeats=last,
                rate=last.stream_rate if last and can_be_held(method) else None,
            )
        except Refused as error:
            self._refuse(error)
        self._end_with(rebuild, options)

    def _end_with(self, rebuild: Rebuild, options: dict[str, Any]) -> None:
        if options["follow"]:
            sys.exit(self._follow(rebuild))
        self._tell(
            {"rebuild": rebuild.pk, "status": rebuild.status, **_expected_start(rebuild)},
            f"Rebuild {rebuild.pk} is {rebuild.status}.",
        )

    def _follow_up(self, target: Instance, method: str, options: dict[str, Any]) -> Rebuild:
        """Ask for it on the last rebuild that worked on the target: only that one's data lies there."""
        rebuilds = Rebuild.objects.filter(target=target).order_by("-pk")
        last = next((item for item in rebuilds if has_worked(item) or not item.is_final), None)
        if last is None:
            raise CommandError(f"No rebuild has worked on {target.name}.", returncode=REFUSED)
        return request_follow_up(
            actor=actor_named(options["user"]),
            rebuild=last,
            method=method,
            typed_name=target.name,
            reason=options["reason"],
            request_key=secrets.token_hex(16),
        )

    def _newest(self, target: Instance) -> Rebuild:
        rebuild = Rebuild.objects.filter(target=target).select_related("target", "source").order_by("-pk").first()
        if rebuild is None:
            raise CommandError(f"{target.name} has no rebuild to plan again.", returncode=REFUSED)
        return rebuild

    def _unfinished(self, name: str) -> Rebuild:
        rebuild = Rebuild.objects.filter(target_slot__name=name).first()
        if rebuild is None:
            raise CommandError(f"{name} has no unfinished rebuild.", returncode=REFUSED)
        return rebuild

    def _give_up(self, target: Instance, user: str | None, reason: str) -> None:
        rebuild = self._unfinished(target.name)
        force_fail_rebuild(actor=actor_named(user), rebuild=rebuild, reason=reason)
        self._tell({"rebuild": rebuild.pk, "status": "failed"}, f"Rebuild {rebuild.pk} is ended without its hosts.")

    def _decide(self, target: Instance, decide: Callable[..., None], user: str | None, reason: str) -> None:
        rebuild = self._unfinished(target.name)
        decide(actor=actor_named(user), rebuild=rebuild, reason=reason)
        record = {"rebuild": rebuild.pk, "status": rebuild.status, "approval": rebuild.approval}
        self._tell(record, f"Rebuild {rebuild.pk} is {rebuild.approval}.")

    def _cancel(self, target: Instance, user: str | None) -> None:
        rebuild = self._unfinished(target.name)
        cancel_rebuild(actor=actor_named(user), rebuild=rebuild)
        self._tell({"rebuild": rebuild.pk, "status": rebuild.status}, f"Rebuild {rebuild.pk} is asked to end.")

    def _set_rate(self, target: Instance, user: str | None, mib: float) -> None:
        rebuild = self._unfinished(target.name)
        # what is no number is too slow, and refused as such; 0 alone means full speed, not what is rounded to it
        rate = (round(mib * MIB) if isfinite(mib) else 0) if mib else None
        set_stream_rate(actor=actor_named(user), rebuild=rebuild, rate=rate)
        text = f"The stream of rebuild {rebuild.pk} {f'is held to {mib:g} MiB/s' if rate else 'goes at full speed'}."
        self._tell({"rebuild": rebuild.pk, "stream_rate": rebuild.stream_rate}, text)

    def _move(self, target: Instance, user: str | None, priority: int | None) -> None:
        rebuild = self._unfinished(target.name)
        if priority is None:
            move_first(actor=actor_named(user), rebuild=rebuild)
        else:
            set_priority(actor=actor_named(user), rebuild=rebuild, priority=priority)
        self._tell(
            {"rebuild": rebuild.pk, "priority": rebuild.priority, **_expected_start(rebuild)},
            f"Rebuild {rebuild.pk} has priority {rebuild.priority} now.",
        )

    def _instance(self, name: str) -> Instance:
        try:
            return Instance.objects.select_related("cluster", "host").get(name=name)
        except Instance.DoesNotExist:
            raise CommandError(f"There is no instance named {name!r} in the inventory.", returncode=REFUSED) from None

    def _source(self, name: str | None) -> Instance | None:
        return self._instance(name) if name else None

    def _refuse(self, error: Refused) -> None:
        self._tell({"status": "refused", "error": error.as_record()}, f"Refused: {error}")
        sys.exit(REFUSED)

    def _tell(self, record: dict[str, Any], text: str) -> None:
        self.stdout.write(json.dumps(record) if self.as_json else text)
        self.stdout.flush()

    def _show_plan(self, plan: Plan, ways: StartOptions) -> None:
        if self.as_json:
            record = {**to_record(plan), "fingerprint": plan.fingerprint, "is_possible": plan.is_possible}
            record |= {"verdict": to_record(ways.verdict), "starts": to_record(ways.choices)}
            self.stdout.write(json.dumps(record))
            return
        self.stdout.write(
            f"Rebuild {plan.target.name} from {plan.source.name}, then replicate from {plan.primary.name}."
        )
        for line in plan.destroys:
            self.stdout.write(f"  destroys: {line}")
        for finding in plan.findings:
            self.stdout.write(f"  {finding.severity:8} {finding.title}: {finding.seen} {finding.advice}".rstrip())
        for step in plan.steps:
            self.stdout.write(f"  {step.title} ({predicted(step)})")
            for command in step.commands:
                self.stdout.write(f"      [{command.place}] {command.text}")
        for line in start_lines(ways):
            self.stdout.write(line)

    def _follow(self, rebuild: Rebuild) -> int:
        seen = 0
        while True:
            rebuild.refresh_from_db()
            final = rebuild.is_final
            for event in rebuild.events.filter(pk__gt=seen):
                seen = event.pk
                self._tell(
                    {
                        "at": event.at.isoformat(),
                        "step": event.step,
                        "host": event.host,
                        "level": event.level,
                        "text": event.text,
                    },
                    f"{event.at:%H:%M:%S} {event.step:12} {event.text}",
                )
            if final:
                break
            time.sleep(FOLLOW_SECONDS)
        self._tell(self._result(rebuild), f"{rebuild.status}: {rebuild.outcome}")
        return EXIT_STATUS[Status(rebuild.status)]

    def _result(self, rebuild: Rebuild) -> dict[str, Any]:
        steps = [
            {
                "name": step.name,
                "title": step.title,
                "state": step.state,
                "seconds": (step.finished_at - step.started_at).total_seconds()
                if step.started_at and step.finished_at
                else None,
                "bytes": step.progress.get("bytes"),
                **_end_of(step),
            }
            for step in rebuild.steps.all()
        ]
        return {
            "rebuild": rebuild.pk,
            "status": rebuild.status,
            "outcome": rebuild.outcome,
            "error": rebuild.error,
            "seconds": (rebuild.finished_at - rebuild.requested_at).total_seconds() if rebuild.finished_at else None,
            "steps": steps,
        }


def _expected_start(rebuild: Rebuild) -> dict[str, Any]:
    """Return when a queued rebuild is expected to start, as part of a JSON object; empty where it is not queued."""
    found = expected_start_of(rebuild)
    if found is None:
        return {}
    p50, p90 = (moment.isoformat() if moment else None for moment in (found.p50, found.p90))
    return {"expected_start": {"p50": p50, "p90": p90, "basis": found.words}}


def start_lines(ways: StartOptions) -> Iterator[str]:
    """Yield the one answer, what stands in the way, and every way to start; times in UTC."""
    answer = ways.verdict
    until = f" {_clock(answer.free)}" if answer.answer == EligibilityState.UNTIL else ""
    yield f"Can it be rebuilt: {answer.answer}{until}"
    for blocker in (*answer.blockers, *answer.warnings):
        yield f"  {blocker.effect:8} {blocker.text} Until: {_clock(blocker.until)}. To unblock: {blocker.clears}"
    yield "Ways to start (--start KEY; another source: --source NAME):"
    for choice in ways.choices:
        times = f"starts {_clock(choice.starts)}, finished {_clock(choice.finishes)}"
        yield (
            f"  {choice.key:28} {choice.title}: {times}"
            if choice.is_possible
            else (f"  {'not possible':28} {choice.title}: {choice.reason}")
        )


def _clock(end: TimeEstimate) -> str:
    if end.p50 is None or end.p90 is None:
        return f"not known ({end.words})"
    likely, late = (f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC" for moment in (end.p50, end.p90))
    return likely if likely == late else f"{likely} (9 of 10: {late})"


def predicted(step: PlannedStep) -> str:
    """Say how long a step is expected to take: half of its past runs, and 9 of 10 where there are enough."""
    if step.predicted_seconds is None:
        return "not known yet"
    late = "" if step.predicted_p90_seconds is None else f", 9 of 10 within {step.predicted_p90_seconds:.1f} s"
    return f"{step.predicted_seconds:.1f} s{late}" + (", by rebuilds of other clusters" if step.is_of_others else "")


def _end_of(step: RebuildStep) -> dict[str, Any]:
    """Return how the programs of a step that failed ended and what they said last, by name; nothing of other steps."""
    if step.state != StepState.FAILED:
        return {}
    return {name: step.result.get(name, {}) for name in ("exit_statuses", "tails")}
