"""``manage.py availability_report [--month 2026-03] [--cluster NAME] [--pdf FILE | --html FILE]``."""

import getpass
from datetime import date
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from dbops.lib.pdf import NoBrowser, document, pdf
from dbops.management.command import DbopsCommand
from dbops.models import Cluster
from dbops.operations.audit import record_export
from dbops.queries.availability.report import cluster_report, fleet_report, last_month, month_of


class Command(DbopsCommand):
    help = "Write a month's availability, of all clusters or of one, as HTML that stands alone or as PDF."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--month", default="", help="for example 2026-03; the last one that is over by default")
        parser.add_argument("--cluster", default="", help="one cluster with all of its intervals; else all clusters")
        into = parser.add_mutually_exclusive_group(required=True)
        into.add_argument("--pdf", type=Path, metavar="FILE", help="needs Chromium on this machine")
        into.add_argument("--html", type=Path, metavar="FILE")

    def handle(self, *args: Any, **options: Any) -> None:
        now, zone = timezone.now(), timezone.get_current_timezone()
        month = month_of(_first(options["month"]) or last_month(now, zone), now, zone)
        if month is None:
            raise CommandError(f"{options['month']} has not begun.")
        if options["cluster"]:
            cluster = Cluster.objects.filter(name=options["cluster"]).first()
            if cluster is None:
                raise CommandError(f"There is no cluster {options['cluster']!r}.")
            of_one = cluster_report(cluster, month, now)
            html = document("availability/report_cluster.html", report=of_one, stands_alone=True)
        else:
            html = document("availability/report_fleet.html", report=fleet_report(month, now), stands_alone=True)
        to: Path = options["pdf"] or options["html"]
        try:
            if options["pdf"]:
                pdf(html, to)
            else:
                to.write_text(html, encoding="utf-8")
        except NoBrowser as error:
            raise CommandError(f"No PDF was made: {error}.") from None
        except OSError as error:
            raise CommandError(f"{to}: {error.strerror}. Nothing was written.") from None
        asked = {"month": month.key, "cluster": options["cluster"]}
        record_export(
            f"{getpass.getuser()} (manage.py)", "availability", path="manage.py availability_report", filter=asked
        )
        self.stdout.write(f"{month.key}: written to {to}")


def _first(text: str) -> date | None:
    if not text:
        return None
    try:
        return date.fromisoformat(f"{text}-01")
    except ValueError:
        raise CommandError(f"{text!r} is no month: write it as 2026-03.") from None
