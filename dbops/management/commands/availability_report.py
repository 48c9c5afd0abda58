"""``manage.py availability_report [--month 2026-03] [--cluster NAME] --html FILE``."""

from datetime import date
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from dbops.database import clock
from dbops.lib.documents import render_document
from dbops.management.accounts import login_name
from dbops.management.command import DbopsCommand
from dbops.models import Cluster
from dbops.operations.audit import record_export
from dbops.queries.availability.report import cluster_report, fleet_report, last_month, month_of


class Command(DbopsCommand):
    help = "Write the availability report of one month to an HTML file, for all clusters or one."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--month", default="", help="month, e.g. 2026-03 (default: last month)")
        parser.add_argument("--cluster", default="", help="one cluster, with every gap (default: all clusters)")
        parser.add_argument("--html", type=Path, metavar="FILE", required=True, help="file to write")

    def handle(self, *args: Any, **options: Any) -> None:
        now, zone = clock.now(), timezone.get_current_timezone()
        month = month_of(_first(options["month"]) or last_month(now, zone), now, zone)
        if month is None:
            raise CommandError(f"{options['month']} is in the future.")
        if options["cluster"]:
            cluster = Cluster.objects.filter(name=options["cluster"]).first()
            if cluster is None:
                raise CommandError(f"There is no cluster {options['cluster']!r}.")
            of_one = cluster_report(cluster, month, now)
            html = render_document("availability/report_cluster.html", report=of_one, is_file=True)
        else:
            html = render_document("availability/report_fleet.html", report=fleet_report(month, now), is_file=True)
        to: Path = options["html"]
        try:
            to.write_text(html, encoding="utf-8")
        except OSError as error:
            raise CommandError(f"{to}: {error.strerror}. Nothing was written.") from None
        asked = {"month": month.key, "cluster": options["cluster"]}
        record_export(f"{login_name()} (manage.py)", "availability", path="manage.py availability_report", filter=asked)
        self.stdout.write(f"{month.key}: written to {to}")


def _first(text: str) -> date | None:
    if not text:
        return None
    try:
        return date.fromisoformat(f"{text}-01")
    except ValueError:
        raise CommandError(f"{text!r} is not a month. Use the form 2026-03.") from None
