"""``manage.py rebuild``: plan, start and control rebuilds. Exit status: 0 succeeded, 1 failed, 2 refused, 3 cancelled."""

import json
import secrets
import sys
import time
from collections.abc import Callable
from math import isfinite
from typing import Any

from django.core.management.base import CommandError, CommandParser

from dbops.engine.errors import Refused
from dbops.engine.facts.instance import to_record
from dbops.engine.methods import DEFAULT_METHOD, METHODS
from dbops.engine.rebuilds.follow_ups import RESUME, ROLLBACK
from dbops.engine.rebuilds.plan import Plan, PlannedStep
from dbops.engine.schedule.start_option_keys import StartMode
from dbops.engine.states import Status, StepState
from dbops.engine.tuning.stream_rate import MIB
from dbops.management.accounts import actor_named
from dbops.management.command import DbopsCommand
from dbops.management.start_text import start_lines
from dbops.models import Instance, Rebuild, RebuildStep, RowComparison
from dbops.operations.approvals import approve_rebuild, decline_rebuild, override_approval
from dbops.operations.follow_up_options import choices_of, has_worked
from dbops.operations.follow_ups import request_follow_up
from dbops.operations.rate_limit import can_be_held, set_stream_rate
from dbops.operations.rebuilds import (
    cancel_rebuild,
    force_fail_rebuild,
    move_first,
    plan_rebuild,
    request_rebuild,
    set_priority,
)
from dbops.operations.row_comparisons import cancel_comparison
from dbops.operations.start_options import StartOptions, offered_start_options
from dbops.queries.rebuilds.pages import expected_start_of
from dbops.queries.rebuilds.row_comparisons import as_record, comparison_of

EXIT_STATUS = {Status.SUCCEEDED: 0, Status.FAILED: 1, Status.EXPIRED: 1, Status.LOST: 1, Status.CANCELLED: 3}
REFUSED = 2
FOLLOW_SECONDS = 0.5
APPROVALS = {"approve": approve_rebuild, "decline": decline_rebuild, "override-approval": override_approval}
APPROVAL_HELP = {
    "approve": "approve the instance's waiting rebuild; another person must have requested it",
    "decline": "decline the instance's waiting rebuild; requires --reason",
    "override-approval": "emergency: start the rebuild without approval; requires --reason",
}


class Command(DbopsCommand):
    help = "Plan, start, follow or control the rebuild of an instance."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("target", help="instance to rebuild")
        parser.add_argument("--reason", default="", help="reason, recorded in the audit log")
        parser.add_argument("--ticket", default="", help="change ticket, if the cluster needs one")
        parser.add_argument("--source", help="instance to read (default: the best backup source)")
        parser.add_argument(
            "--method", choices=list(METHODS), default=DEFAULT_METHOD, help="method (default: %(default)s)"
        )
        parser.add_argument(
            "--keep-old-data", action="store_true", help="keep the old data directory after verification"
        )
        parser.add_argument(
            "--full-certificate",
            action="store_true",
            help="compare all rows of the copy: what takes longer continues after success",
        )
        parser.add_argument("--plan", action="store_true", help="print the plan; change nothing")
        parser.add_argument(
            "--start",
            default=StartMode.SOON.value,
            help="key of a start option that --plan prints, or at:20261231T220000Z (default: as soon as possible)",
        )
        parser.add_argument(
            "--expires-hours",
            type=int,
            help="expire the rebuild if it has not started after this many hours (1 to 168)",
        )
        parser.add_argument(
            "--with",
            dest="with_target",
            metavar="INSTANCE",
            help="share one read of the source with the rebuild of this instance, which is queued or has just started",
        )
        parser.add_argument(
            "--rate",
            type=float,
            metavar="MIB",
            help="limit the stream to this many MiB/s; 0: no limit. Without --reason and --again: of the unfinished rebuild",
        )
        parser.add_argument("--priority", type=int, help="set the priority of the instance's queued rebuild")
        parser.add_argument(
            "--first", action="store_true", help="move the instance's rebuild to the front of its queue"
        )
        _add_controls(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        self.as_json = options["json"]
        try:
            target, source = self._instance(options["target"]), self._source(options["source"])
            if options["cancel"] or options["cancel_comparison"]:
                (self._cancel if options["cancel"] else self._cancel_comparison)(target, options["user"])
                return
            if options["rate"] is not None and not (options["reason"] or options["again"]):
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
                self._force_fail(target, options["user"], options["reason"])
                return
            if options["roll_back"] or options["resume"]:
                self._end_with(self._follow_up(target, ROLLBACK if options["roll_back"] else RESUME, options), options)
                return
            last = self._newest(target) if options["again"] else None
            if last is not None:
                before = choices_of(last)
                source = before.source
                options |= {"method": before.method, "keep_old_data": before.keep_old_data}
                options["full_certificate"] |= before.full_certificate
                options["reason"] = options["reason"] or before.reason
                options["ticket"] = options["ticket"] or last.ticket
            method = options["method"]
            chosen = {name: options[name] for name in ("keep_old_data", "full_certificate")}
            plan = plan_rebuild(target=target, source=source, method=method, **chosen)
            if options["plan"]:
                start_options = offered_start_options(
                    target, self._instance(plan.source.name), method=method, key=options["start"]
                )
                self._show_plan(plan, start_options)
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
                **chosen,
                start=options["start"],
                expires_hours=options["expires_hours"],
                joins=self._unfinished(options["with_target"]) if options["with_target"] else None,
                repeats=last,
                rate=_rate(options["rate"], last) if can_be_held(method) else None,
                ticket=options["ticket"],
            )
        except Refused as error:
            self._refuse(error)
        self._end_with(rebuild, options)

    def _end_with(self, rebuild: Rebuild, options: dict[str, Any]) -> None:
        if options["follow"]:
            sys.exit(self._follow(rebuild))
        self._write(
            {"rebuild": rebuild.pk, "status": rebuild.status, **_expected_start(rebuild)},
            f"Rebuild {rebuild.pk} is {rebuild.status}.",
        )

    def _follow_up(self, target: Instance, method: str, options: dict[str, Any]) -> Rebuild:
        """Request the follow-up of the last rebuild that changed the target: its data is there now."""
        rebuilds = Rebuild.objects.filter(target=target).order_by("-pk")
        last = next((item for item in rebuilds if has_worked(item) or not item.is_final), None)
        if last is None:
            raise CommandError(f"No rebuild has changed {target.name}.", returncode=REFUSED)
        return request_follow_up(
            actor=actor_named(options["user"]),
            rebuild=last,
            method=method,
            typed_name=target.name,
            reason=options["reason"],
            request_key=secrets.token_hex(16),
            ticket=options["ticket"] or last.ticket,
        )

    def _newest(self, target: Instance) -> Rebuild:
        rebuild = Rebuild.objects.filter(target=target).select_related("target", "source").order_by("-pk").first()
        if rebuild is None:
            raise CommandError(f"{target.name} has no rebuild to repeat.", returncode=REFUSED)
        return rebuild

    def _unfinished(self, name: str) -> Rebuild:
        rebuild = Rebuild.objects.filter(target_slot__name=name).first()
        if rebuild is None:
            raise CommandError(f"{name} has no unfinished rebuild.", returncode=REFUSED)
        return rebuild

    def _force_fail(self, target: Instance, user: str | None, reason: str) -> None:
        rebuild = self._unfinished(target.name)
        force_fail_rebuild(actor=actor_named(user), rebuild=rebuild, reason=reason)
        self._write({"rebuild": rebuild.pk, "status": "failed"}, f"Rebuild {rebuild.pk} is marked as failed.")

    def _decide(self, target: Instance, decide: Callable[..., None], user: str | None, reason: str) -> None:
        rebuild = self._unfinished(target.name)
        decide(actor=actor_named(user), rebuild=rebuild, reason=reason)
        record = {"rebuild": rebuild.pk, "status": rebuild.status, "approval": rebuild.approval}
        self._write(record, f"Rebuild {rebuild.pk} is {rebuild.approval}.")

    def _cancel(self, target: Instance, user: str | None) -> None:
        rebuild = self._unfinished(target.name)
        cancel_rebuild(actor=actor_named(user), rebuild=rebuild)
        self._write(
            {"rebuild": rebuild.pk, "status": rebuild.status}, f"Cancellation of rebuild {rebuild.pk} requested."
        )

    def _cancel_comparison(self, target: Instance, user: str | None) -> None:
        found = RowComparison.objects.filter(target=target).select_related("target").first()
        if found is None:
            raise CommandError(f"{target.name} has no comparison of all rows.", returncode=REFUSED)
        cancel_comparison(actor=actor_named(user), comparison=found)
        record = {"rebuild": found.rebuild_id, "row_comparison": as_record(found)}
        self._write(record, f"Cancellation of the comparison of rebuild {found.rebuild_id} requested.")

    def _set_rate(self, target: Instance, user: str | None, mib: float) -> None:
        rebuild = self._unfinished(target.name)
        rate = _bytes(mib)
        set_stream_rate(actor=actor_named(user), rebuild=rebuild, rate=rate)
        text = f"The stream of rebuild {rebuild.pk} {f'is limited to {mib:g} MiB/s' if rate else 'has no rate limit'}."
        self._write({"rebuild": rebuild.pk, "stream_rate": rebuild.stream_rate}, text)

    def _move(self, target: Instance, user: str | None, priority: int | None) -> None:
        rebuild = self._unfinished(target.name)
        if priority is None:
            move_first(actor=actor_named(user), rebuild=rebuild)
        else:
            set_priority(actor=actor_named(user), rebuild=rebuild, priority=priority)
        self._write(
            {"rebuild": rebuild.pk, "priority": rebuild.priority, **_expected_start(rebuild)},
            f"Rebuild {rebuild.pk} now has priority {rebuild.priority}.",
        )

    def _instance(self, name: str) -> Instance:
        try:
            return Instance.objects.select_related("cluster", "host").get(name=name)
        except Instance.DoesNotExist:
            raise CommandError(f"There is no instance named {name!r} in the inventory.", returncode=REFUSED) from None

    def _source(self, name: str | None) -> Instance | None:
        return self._instance(name) if name else None

    def _refuse(self, error: Refused) -> None:
        self._write({"status": "refused", "error": error.as_record()}, f"Refused: {error}")
        sys.exit(REFUSED)

    def _write(self, record: dict[str, Any], text: str) -> None:
        self.stdout.write(json.dumps(record) if self.as_json else text)
        self.stdout.flush()

    def _show_plan(self, plan: Plan, options: StartOptions) -> None:
        if self.as_json:
            record = {**to_record(plan), "fingerprint": plan.fingerprint, "is_possible": plan.is_possible}
            record |= {"eligibility": to_record(options.eligibility), "options": to_record(options.options)}
            self.stdout.write(json.dumps(record))
            return
        self.stdout.write(
            f"Rebuild {plan.target.name} from {plan.source.name}, then replicate from {(plan.upstream or plan.primary).name}."
        )
        for line in plan.destroys:
            self.stdout.write(f"  destroys: {line}")
        for finding in plan.findings:
            self.stdout.write(f"  {finding.severity:8} {finding.title}: {finding.seen} {finding.advice}".rstrip())
        for step in plan.steps:
            self.stdout.write(f"  {step.title} ({predicted(step)})")
            for command in step.commands:
                self.stdout.write(f"      [{command.place}] {command.text}")
        for line in start_lines(options):
            self.stdout.write(line)

    def _follow(self, rebuild: Rebuild) -> int:
        seen = 0
        while True:
            rebuild.refresh_from_db()
            final = rebuild.is_final
            for event in rebuild.events.filter(pk__gt=seen):
                seen = event.pk
                self._write(
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
        self._write(self._result(rebuild), f"{rebuild.status}: {rebuild.outcome}")
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
            "certificate": rebuild.checkpoint.get("certificate"),
            "row_comparison": as_record(comparison_of(rebuild.pk)),
        }


def _rate(mib: float | None, last: Rebuild | None) -> int | None:
    """Return the limit of a new rebuild: the given one, else that of the rebuild that it repeats."""
    if mib is not None:
        return _bytes(mib)
    return last.stream_rate if last else None


def _bytes(mib: float) -> int | None:
    """Return bytes a second; ``None`` for an exact 0. NaN and infinity become 0, which is refused as too slow."""
    return (round(mib * MIB) if isfinite(mib) else 0) if mib else None


def _add_controls(parser: CommandParser) -> None:
    """Add the options that control or follow an existing rebuild, and the output options."""
    parser.add_argument("--cancel", action="store_true", help="cancel the instance's unfinished rebuild")
    parser.add_argument(
        "--cancel-comparison",
        action="store_true",
        help="cancel the comparison of all rows that continues after the instance's last rebuild",
    )
    parser.add_argument(
        "--roll-back",
        action="store_true",
        help="put the old data of the last failed rebuild back and start the instance",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="continue with the complete copy of the last failed rebuild, if that is safe",
    )
    parser.add_argument(
        "--again",
        action="store_true",
        help="repeat the last unsuccessful rebuild with the same source, method, old data, rate and reason",
    )
    for verb, text in APPROVAL_HELP.items():
        parser.add_argument(f"--{verb}", action="store_true", help=text)
    parser.add_argument(
        "--force-fail", action="store_true", help="mark a lost rebuild as failed without contacting its hosts"
    )
    parser.add_argument("--follow", action="store_true", help="print events until the rebuild ends")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object per line; the last one is the result"
    )
    parser.add_argument(
        "--as", dest="user", help="act as this operator (default: cli-<login name>, created if missing)"
    )


def _expected_start(rebuild: Rebuild) -> dict[str, Any]:
    """Return the expected start of a queued rebuild for a JSON object; empty if it is not queued."""
    found = expected_start_of(rebuild)
    if found is None:
        return {}
    p50, p90 = (moment.isoformat() if moment else None for moment in (found.p50, found.p90))
    return {"expected_start": {"p50": p50, "p90": p90, "basis": found.reason}}


def predicted(step: PlannedStep) -> str:
    """Return the expected duration of a step as text: median, and p90 if there are enough past runs."""
    if step.predicted_seconds is None:
        return "no estimate"
    late = "" if step.predicted_p90_seconds is None else f", p90 {step.predicted_p90_seconds:.1f} s"
    return f"{step.predicted_seconds:.1f} s{late}" + (", from other clusters" if step.is_of_others else "")


def _end_of(step: RebuildStep) -> dict[str, Any]:
    """Return exit statuses and last output of a failed step's programs; empty for other steps."""
    if step.state != StepState.FAILED:
        return {}
    return {name: step.result.get(name, {}) for name in ("exit_statuses", "tails")}
