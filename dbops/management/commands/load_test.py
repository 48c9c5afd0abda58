"""``manage.py load_test``: plan, start, stop or show load tests, or read statements for them.

Exit status: 0 succeeded, 1 failed, 2 refused, 3 stopped.
"""

import json
import secrets
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from django.core.management.base import CommandError, CommandParser

from dbops.engine.errors import Refused
from dbops.engine.facts.instance import from_record, to_record
from dbops.engine.flavors.prepare import MIB
from dbops.engine.load_tests.digests import digest_plan
from dbops.engine.load_tests.plan import LoadTestPlan
from dbops.engine.load_tests.request import LoadTestRequest
from dbops.engine.states import RunStatus
from dbops.management.accounts import actor_named
from dbops.management.command import DbopsCommand
from dbops.models import DigestReading, Instance, LoadTest
from dbops.operations.digests import request_digest_reading
from dbops.operations.load_tests import cancel_load_test, plan_load_test, request_load_test
from dbops.queries.digests import digests_of, find_digest_reading
from dbops.queries.load_tests import find_load_test

EXIT_STATUS = {RunStatus.SUCCEEDED: 0, RunStatus.CANCELLED: 3}
REFUSED = 2
WATCH_SECONDS = 0.5
#: A worker takes a reading within seconds.
READING_SECONDS = 300
#: A request has at most 20,000 statements.
MOST_REQUEST_BYTES = 64 * MIB


class Command(DbopsCommand):
    help = "Plan, start, stop or show a load test on a scratch server, or of inserts into an empty TiDB cluster."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("verb", choices=["plan", "start", "cancel", "show", "digests"])
        parser.add_argument(
            "subject",
            help="plan and start: file with the request as JSON, - for standard input; digests: the instance; else: the number",
        )
        parser.add_argument("--schema", default="", help="digests: the schema whose top statements are read")
        parser.add_argument(
            "--digests", default="", metavar="READING", help="plan and start: send the statements of this reading"
        )
        parser.add_argument(
            "--confirm",
            default="",
            metavar="NAME",
            help="start: name of the host that runs the test, or of the TiDB cluster that takes the inserts",
        )
        parser.add_argument("--reason", default="", help="start and cancel: reason, recorded in the audit log")
        parser.add_argument(
            "--fingerprint", default="", help="start: of the plan that was shown (default: of the plan now)"
        )
        parser.add_argument("--request-key", default="", help="start: the same key starts no second test")
        parser.add_argument(
            "--watch", action="store_true", help="start and show: print events until the load test ends"
        )
        parser.add_argument(
            "--json", action="store_true", help="print one JSON object per line; the last one is the result"
        )
        parser.add_argument(
            "--as", dest="user", help="act as this operator (default: cli-<login name>, created if missing)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        self.as_json = options["json"]
        try:
            if options["verb"] == "digests":
                self._read_digests(options)
            elif options["verb"] in ("plan", "start"):
                self._plan_or_start(options)
            else:
                self._cancel_or_show(options)
        except Refused as error:
            self._refuse(error)

    def _plan_or_start(self, options: dict[str, Any]) -> None:
        request = _with_digests(_request_in(options["subject"]), options["digests"])
        plan = plan_load_test(request)
        if options["verb"] == "plan":
            self._show_plan(plan)
            sys.exit(REFUSED if plan.refusals else 0)
        load_test = request_load_test(
            actor=actor_named(options["user"]),
            request=request,
            typed_name=options["confirm"],
            reason=options["reason"],
            fingerprint=options["fingerprint"] or plan.fingerprint,
            request_key=options["request_key"] or secrets.token_hex(16),
        )
        self._end(load_test, options["watch"])

    def _read_digests(self, options: dict[str, Any]) -> None:
        """Request a reading and wait until a worker has taken it. Its number is for ``--digests``."""
        instance = Instance.objects.filter(name=options["subject"]).first()
        if instance is None:
            raise CommandError(f"There is no instance {options['subject']}.", returncode=REFUSED)
        actor = actor_named(options["user"])
        row, until = None, time.monotonic() + READING_SECONDS
        # a reading of another schema can be under way: only one runs on an instance
        while row is None or not row.is_over or row.schema != options["schema"]:
            if row is None or row.is_over:
                row = request_digest_reading(actor=actor, instance=instance, schema=options["schema"])
            if time.monotonic() > until:
                raise CommandError(f"Reading {row.pk} has not ended. Check that a worker is running.", returncode=1)
            time.sleep(WATCH_SECONDS)
            row.refresh_from_db()
        found = digest_plan(digests_of(row))
        record = {"reading": row.pk, "status": row.status, "error": row.error, **to_record(found)}
        for one in () if self.as_json else found.digests:
            self.stdout.write(f"{one.percent:6.2f} % {one.reason and f'left out, {one.reason}: '}{one.text}")
        self._write(
            record, f"Reading {row.pk} {row.status}: {found.percent:.1f} % of {found.total} statements can be used."
        )
        sys.exit(0 if row.status == DigestReading.Statuses.SUCCEEDED else 1)

    def _cancel_or_show(self, options: dict[str, Any]) -> None:
        load_test = find_load_test(int(options["subject"])) if options["subject"].isdecimal() else None
        if load_test is None:
            raise CommandError(f"There is no load test {options['subject']}.", returncode=REFUSED)
        if options["verb"] == "cancel":
            cancel_load_test(actor=actor_named(options["user"]), load_test=load_test, reason=options["reason"])
        self._end(load_test, options["watch"])

    def _show_plan(self, plan: LoadTestPlan) -> None:
        if self.as_json:
            self._write({**to_record(plan), "fingerprint": plan.fingerprint}, "")
            return
        for finding in plan.findings:
            self.stdout.write(f"{finding.severity.value}: {finding.text} ({finding.code})")
        for reason in plan.reasons:
            self.stdout.write(reason)
        expected = plan.estimate.total
        time_text = "time unknown" if expected is None else f"about {expected / 60:.0f} min"
        self.stdout.write(
            f"{len(plan.rounds)} rounds, {time_text}, on {plan.host}: {plan.memory_bytes // MIB} MiB of"
            f" memory, {plan.needed_bytes // MIB} MiB of disk in {plan.place}, {plan.server_cores} + {plan.generator_cores} cores."
        )
        if plan.tidb:
            self.stdout.write(
                f"Inserts into the TiDB cluster {plan.tidb.cluster} by {plan.tidb.user}@{plan.tidb.address}:{plan.tidb.port}"
                f" ({', '.join(plan.tidb.nodes)}). Confirm with the cluster’s name."
            )
        if plan.digests.sha256:
            self.stdout.write(
                f"{len(plan.digests.used)} top statements used, {plan.digests.percent:.1f} % of those that the source ran;"
                f" {len(plan.digests.left_out)} left out."
            )
        if plan.is_tunnelled:
            self.stdout.write(
                f"Load generator on {plan.generator_host}: {plan.generator_memory_bytes // MIB} MiB of memory."
            )
        self.stdout.write(f"Fingerprint: {plan.fingerprint}")

    def _end(self, load_test: LoadTest, watch: bool) -> None:
        seen = 0
        while watch:
            load_test.refresh_from_db(fields=["status", "waiting_for"])
            seen = self._write_events(load_test, seen)
            if load_test.is_over:
                break
            time.sleep(WATCH_SECONDS)
        load_test.refresh_from_db(fields=["status", "steps", "report", "error"])
        rounds = load_test.rounds.count()
        result = {
            "load_test": load_test.pk,
            "status": load_test.status,
            "steps": load_test.steps,
            "rounds": rounds,
            "report": load_test.report,
            "error": load_test.error,
        }
        self._write(result, f"Load test {load_test.pk} is {load_test.status}, with {rounds} rounds.")
        if watch:
            sys.exit(EXIT_STATUS.get(RunStatus(load_test.status), 1))

    def _write_events(self, load_test: LoadTest, seen: int) -> int:
        """Write the events after ``seen`` and return the number of the last one."""
        for event in load_test.events.filter(pk__gt=seen):
            seen = event.pk
            record = {"at": event.at.isoformat(), "level": event.level, "text": event.text}
            self._write(record, f"{event.at:%H:%M:%S} {event.text}")
        return seen

    def _refuse(self, error: Refused) -> NoReturn:
        self._write({"status": "refused", "error": error.as_record()}, f"Refused: {error}")
        sys.exit(REFUSED)

    def _write(self, record: dict[str, Any], text: str) -> None:
        self.stdout.write(json.dumps(record) if self.as_json else text)
        self.stdout.flush()


def _with_digests(request: LoadTestRequest, reading: str) -> LoadTestRequest:
    """Return the request with the statements of a reading of the source's cluster.

    Raises:
        Refused: there is no such reading (``digests.not_found``).
    """
    if not reading:
        return request
    source = Instance.objects.filter(name=request.source).first()
    found = digests_of(find_digest_reading(reading, cluster_id=source.cluster_id)) if source else None
    if found is None:
        raise Refused.unchanged("digests.not_found", f"Planning a load test on {request.host}", f"reading {reading!r}")
    workload = replace(request.workload, digests=found, schema=request.workload.schema or found.schema)
    return replace(request, workload=workload)


def _request_in(path: str) -> LoadTestRequest:
    """Read a request: the fields of ``LoadTestRequest`` as a JSON object."""
    try:
        with sys.stdin if path == "-" else Path(path).open(encoding="utf-8") as file:
            text = file.read(MOST_REQUEST_BYTES)
        return from_record(LoadTestRequest, json.loads(text))
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise CommandError(f"{path} is not a request of a load test: {error}", returncode=REFUSED) from error
