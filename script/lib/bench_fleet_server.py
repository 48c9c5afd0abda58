"""Create a large fleet in the configured database, time pages through Django's client, and print JSON.

python -m script.lib.bench_fleet_server CLUSTERS REPLICAS ROUNDS
"""

# ruff: noqa: E402 - models can be imported only after Django's setup
import gc
import json
import os
import sys
import time
from statistics import median
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dbops.settings")
django.setup()

from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from dbops.models import BackupRun, Cluster, Instance
from script.lib.big_fleet import make_big_fleet


def measure(client: Client, address: str, rounds: int) -> dict[str, float]:
    """Return times of a page in milliseconds, its query count and bytes, without the first call, which fills caches."""
    client.get(address, HTTP_HOST="localhost")
    with CaptureQueriesContext(connection) as captured:
        answer = client.get(address, HTTP_HOST="localhost")
    queries = len(captured)
    assert answer.status_code == 200, answer.content[:300]  # noqa: S101 - a benchmark ends here
    walls, processor = [], []
    for _ in range(rounds):
        wall, cpu = time.perf_counter(), time.process_time()
        client.get(address, HTTP_HOST="localhost")
        walls.append(1000 * (time.perf_counter() - wall))
        processor.append(1000 * (time.process_time() - cpu))
    return {
        "median_ms": median(walls),
        "min_ms": min(walls),
        "cpu_ms": min(processor),
        "queries": queries,
        "bytes": len(answer.content),
    }


def main(clusters: int, replicas: int, rounds: int) -> None:
    call_command("migrate", verbosity=0)
    user = User.objects.create_superuser("bench")
    make_big_fleet(clusters=clusters, replicas=replicas, now=timezone.now(), user=user)
    client = Client()
    client.force_login(user)
    gc.freeze()  # as dbops.asgi does
    name = Cluster.objects.order_by("name").first()
    pages = {
        "fleet": "/",
        "fleet, only blocked": "/?show=blocked",
        "a cluster": f"/clusters/{name}/",
        "its seven days": f"/clusters/{name}/calendar/",
        "schedules": "/schedules/",
        "queue": "/queue/",
        "calendar of all, a day": "/calendar/",
        "calendar of all, a week": "/calendar/?span=week",
        "calendar of all, blocked now": "/calendar/?blocked=1",
        "backups over time": "/backups/history/",
        "availability today": "/availability/",
    }
    found: dict[str, Any] = {
        "clusters": Cluster.objects.count(),
        "instances": Instance.objects.count(),
        "runs": BackupRun.objects.count(),
        "pages": {title: measure(client, address, rounds) for title, address in pages.items()},
        "session": client.cookies["sessionid"].value,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
