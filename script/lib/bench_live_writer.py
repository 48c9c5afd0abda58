"""Create rebuilds in the configured database, write one event per input line, and answer in JSON.

python -m script.lib.bench_live_writer REBUILDS
"""

# ruff: noqa: E402 - models can be imported only after Django's setup
import json
import os
import sys
import time
import uuid

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dbops.settings")
django.setup()

from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import transaction
from django.db.models import F
from django.test import Client
from django.utils import timezone

from dbops.messaging.updates import announce
from dbops.models import Cluster, Host, Instance, Rebuild, RebuildEvent, RebuildStep

STEPS = (
    "Check",
    "Stop the target",
    "Stream the backup",
    "Prepare",
    "Start",
    "Catch up",
    "Repoint",
    "Verify",
    "Clean up",
)
LINES = 300


def make_rebuild(cluster: Cluster, host: Host, number: int, user: User) -> Rebuild:
    """Create a running rebuild with steps and a log."""
    source, target = (
        Instance.objects.create(
            cluster=cluster,
            host=host,
            name=f"{role}-{number}",
            role=role,
            port=port + number,
            datadir=f"/data/{role}-{number}",
        )
        for role, port in (("backup", 4000), ("replica", 5000))
    )
    now = timezone.now()
    rebuild = Rebuild.objects.create(
        uid=uuid.uuid4().hex,
        request_key=str(uuid.uuid4()),
        source=source,
        target=target,
        target_slot=target,
        method="xbstream",
        status="running",
        reason="a measurement",
        requested_by=user,
        requested_at=now,
        started_at=now,
        plan={},
        plan_fingerprint="",
        revision=1,
    )
    RebuildStep.objects.bulk_create(
        RebuildStep(rebuild=rebuild, position=place, name=title.lower().replace(" ", "-"), title=title, state="pending")
        for place, title in enumerate(STEPS)
    )
    RebuildEvent.objects.bulk_create(
        RebuildEvent(rebuild=rebuild, at=now, level="info", text=f"line {line}") for line in range(LINES)
    )
    return rebuild


def write(rebuild_id: int, text: str) -> float:
    """Write and announce one event like a worker. Return the time of the commit."""
    with transaction.atomic():
        RebuildEvent.objects.create(rebuild_id=rebuild_id, at=timezone.now(), level="info", text=text)
        Rebuild.objects.filter(pk=rebuild_id).update(revision=F("revision") + 1, heartbeat_at=timezone.now())
    moment = time.monotonic()
    announce(rebuild_id, Rebuild.objects.values_list("revision", flat=True).get(pk=rebuild_id))
    return moment


def main(rebuilds: int) -> None:
    call_command("migrate", verbosity=0)
    user = User.objects.create_superuser("bench")
    client = Client()
    client.force_login(user)
    cluster = Cluster.objects.create(name="bench")
    host = Host.objects.create(name="bench", ssh_address="127.0.0.1")
    made = [make_rebuild(cluster, host, number, user).pk for number in range(rebuilds)]
    print(json.dumps({"rebuilds": made, "session": client.cookies["sessionid"].value}), flush=True)
    for line in sys.stdin:
        print(json.dumps(write(*json.loads(line))), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
