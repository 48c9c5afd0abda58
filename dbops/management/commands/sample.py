"""``manage.py sample``: fill an empty database with a generated fleet and its history."""

import time
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from dbops.models import AuditName, Cluster, ProcessHeartbeat
from dbops.sample.generate import SEED, fill

WEEKS = range(1, 53)


class Command(BaseCommand):
    help = "Fill an empty database with a sample fleet. Requires DBOPS_SAMPLE=1 and a database without clusters."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--weeks", type=int, default=8, help="weeks of history (default 8)")
        parser.add_argument("--seed", type=int, default=SEED, help="seed for times and sizes")

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.SAMPLE:
            raise CommandError("DBOPS_SAMPLE is not 1. Nothing changed.", returncode=2)
        if is_in_use():
            raise CommandError("This database is already in use. Nothing changed.", returncode=2)
        if options["weeks"] not in WEEKS:
            raise CommandError(f"--weeks must be {WEEKS[0]} to {WEEKS[-1]}. Nothing changed.", returncode=2)
        began = time.monotonic()
        counts = fill(weeks=options["weeks"], now=timezone.now(), seed=options["seed"])
        words = ", ".join(f"{count} {word}" for word, count in counts.items())
        self.stdout.write(f"{words} in {time.monotonic() - began:.1f} s")


def is_in_use() -> bool:
    """Whether the database contains or contained more than accounts, or a worker or beat has used it."""
    acts = AuditName.objects.filter(column="action").exclude(name__startswith="account.")
    return Cluster.objects.exists() or acts.exists() or ProcessHeartbeat.objects.exists()
