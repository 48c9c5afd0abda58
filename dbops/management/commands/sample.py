"""``manage.py sample``: fills an empty database of its own with a generated fleet and its history."""

import time
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from dbops.models import AuditName, Cluster, ProcessHeartbeat
from dbops.sample.generate import SEED, fill

WEEKS = range(1, 53)


class Command(BaseCommand):
    help = "Fill an empty database with a sample fleet. Needs DBOPS_SAMPLE=1, and a database without clusters."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--weeks", type=int, default=8, help="weeks of history (default 8)")
        parser.add_argument("--seed", type=int, default=SEED, help="another number gives other times and sizes")

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.SAMPLE:
            raise CommandError("This is no sample: DBOPS_SAMPLE is not 1. Nothing was changed.", returncode=2)
        if is_in_use():
            raise CommandError("This database is in use already. Nothing was changed.", returncode=2)
        if options["weeks"] not in WEEKS:
            raise CommandError(f"--weeks is {WEEKS[0]} to {WEEKS[-1]}. Nothing was changed.", returncode=2)
        began = time.monotonic()
        counts = fill(weeks=options["weeks"], now=timezone.now(), seed=options["seed"])
        words = ", ".join(f"{count} {word}" for word, count in counts.items())
        self.stdout.write(f"{words} in {time.monotonic() - began:.1f} s")


def is_in_use() -> bool:
    """Tell whether anything but accounts is in the database, was in it once, or a worker or beat has worked with it."""
    acts = AuditName.objects.filter(column="action").exclude(name__startswith="account.")
    return Cluster.objects.exists() or acts.exists() or ProcessHeartbeat.objects.exists()
