"""Create the large audit log of ``script/bench audit`` and request its pages. The importer sets up Django."""

import random
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext

from dbops.engine.audit.chain import ChainEntry, ChainHead, hash_of
from dbops.engine.audit.entries import outcome_of, text_of
from dbops.models import AuditEntry, AuditHead, AuditName, AuditText
from dbops.models.audit import NAMED
from dbops.operations.audit_log import verify_log
from dbops.queries.audit.log import stored

BATCH = 5_000
YEAR_SECONDS = 365 * 86400
ACTIONS = ("rebuild.requested", "rebuild.succeeded", "rebuild.failed", "backup.succeeded", "login", "login.failed")
REASONS = ("the disk of it is full", "it lags behind since the upgrade", "its data differs from the primary's", "")


def make(count: int) -> None:
    """Write this many entries with valid hashes, in batches (dbops itself never writes batches)."""
    call_command("migrate", verbosity=0)
    User.objects.create_superuser("bench")
    names: set[tuple[str, str]] = set()
    batch: list[ChainEntry] = []
    head = ChainHead()
    for link in links(count):
        batch.append(link)
        names |= {(column, getattr(link, column)) for column in NAMED if getattr(link, column)}
        if len(batch) == BATCH or link.sequence == count:
            write(batch)
            head, batch = ChainHead(link.sequence, link.hash), []
    AuditName.objects.bulk_create(
        [AuditName(column=column, name=name, folded=name) for column, name in sorted(names)], batch_size=100
    )
    AuditHead.objects.filter(pk=1).update(sequence=head.sequence, hash=head.hash)


def links(count: int) -> Iterator[ChainEntry]:
    """Yield a year of actions on 1,000 clusters; the same for each run."""
    dice, previous = random.Random(7), ChainHead()  # noqa: S311 - it guards nothing
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(1, count + 1):
        action = ACTIONS[min(int(dice.expovariate(0.6)), len(ACTIONS) - 1)]
        cluster = int(dice.random() * 1000)
        is_login = action.startswith("login")
        instance = "" if is_login else f"replica-{cluster * 3 + int(dice.random() * 3)}"
        actor = (
            "rare" if number % 50_000 == 1 else f"person-{int(dice.random() * 30)}" if dice.random() < 0.5 else "dbops"
        )
        reason = "needle" if number == 1 else dice.choice(REASONS)
        link = ChainEntry(
            sequence=number,
            previous=previous.hash,
            hash="",
            at=start + timedelta(seconds=YEAR_SECONDS * number / count),
            actor=actor,
            action=action,
            subject=instance or "dbops",
            instance=instance,
            cluster="" if is_login else f"cluster-{cluster}",
            outcome=outcome_of(action),
            reason=reason,
            address="192.0.2.1",
            request=f"{number:032x}",
            detail={
                "rebuild": number,
                "source": f"backup-{cluster}",
                "command": "xtrabackup --backup --stream=xbstream",
            },
        )
        link = replace(link, hash=hash_of(link))
        previous = ChainHead(number, link.hash)
        yield link


def write(batch: list[ChainEntry]) -> None:
    names = ChainEntry.__dataclass_fields__
    with transaction.atomic():
        AuditEntry.objects.bulk_create(
            [AuditEntry(**{name: getattr(link, name) for name in names}) for link in batch], batch_size=60
        )
        AuditText.objects.bulk_create(
            [AuditText(sequence=link.sequence, text=text_of(link.reason, link.detail)) for link in batch],
            batch_size=400,
        )


def measure(query: str, rounds: int) -> tuple[list[float], int]:
    """Return the times of a page in milliseconds and its query count, without the first call."""
    client, address = Client(headers={"host": "localhost"}), f"/audit/?{query}"
    client.force_login(User.objects.get(username="bench"))
    client.get(address)
    with CaptureQueriesContext(connection) as captured:
        answer = client.get(address)
    queries = len(captured)
    if answer.status_code != 200:
        raise RuntimeError(f"{address}: {answer.status_code}")
    walls = []
    for _ in range(rounds):
        began = time.perf_counter()
        client.get(address)
        walls.append(1000 * (time.perf_counter() - began))
    return walls, queries


def verify() -> int:
    return len(verify_log(stored(), actor="bench")[0])
