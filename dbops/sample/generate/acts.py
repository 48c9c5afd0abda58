"""Write the sample's audit log. Entries are written now and contain the time of the generated action."""

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from dbops.audit.log import SYSTEM, RequestOrigin, append, request_origin
from dbops.engine.states import RunOrigin as SeenBy
from dbops.engine.states import RunStatus
from dbops.models import BackupRun, Instance, LoadTest, Rebuild, RestoreTest, StorageAttestation
from dbops.sample.database_check import ACTION as GENERATED
from dbops.sample.generate.clusters import CLUSTERS, PEOPLE
from dbops.sample.generate.story import ANNA, JONAS, PRIYA, maintenance, moment

SHELL = "root (manage.py)"
EVA = "eva.lindqvist"
#: Addresses of people, reserved for examples.
PLACES = {name: f"198.51.100.{number}" for number, name in enumerate(PEOPLE, 21)}
A_STRANGER = "203.0.113.77"
#: Values of an action that go into the entry's columns.
COLUMNS = ("outcome", "instance", "cluster")


@dataclass(frozen=True, slots=True)
class SampleAct:
    """One action."""

    at: datetime
    actor: str
    action: str
    subject: str
    reason: str = ""
    detail: dict[str, Any] = field(default_factory=dict)
    address: str = ""


def write_log(
    instances: dict[str, Instance], begin: datetime, now: datetime, *, weeks: int, dice: random.Random
) -> int:
    """Write all entries in order. Return their number."""
    acts = [
        *_beginnings(instances, begin),
        *_comings(begin, now, dice),
        *_of_rebuilds(),
        *_of_backups(),
        *_of_restore_tests(),
        *_of_load_tests(),
        *_of_maintenance(now),
        *_of_attestations(),
        *_others(now),
    ]
    acts = sorted((act for act in acts if begin <= act.at < now), key=lambda act: act.at)
    append(
        actor=SYSTEM,
        action=GENERATED,
        subject="sample",
        detail={
            "weeks": weeks,
            "note": "The following entries are generated. Each was written now; 'happened at' is the time of the simulated action.",
        },
    )
    for act in acts:
        columns = {name: str(act.detail[name]) for name in COLUMNS if name in act.detail}
        detail = {name: value for name, value in act.detail.items() if name not in COLUMNS}
        with request_origin(RequestOrigin(address=act.address or PLACES.get(act.actor, ""))):
            append(
                actor=act.actor,
                action=act.action,
                subject=act.subject,
                reason=act.reason,
                detail={"happened_at": f"{act.at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC", **detail},
                **columns,
            )
    return len(acts) + 1


def _beginnings(instances: dict[str, Instance], begin: datetime) -> list[SampleAct]:
    """Return the actions that created the inventory."""
    at, acts = begin + timedelta(minutes=2), []
    for name, group in PEOPLE.items():
        acts.append(SampleAct(at, SHELL, "account.created", name, detail={"group": group, "changed": ["created"]}))
    file = {"via": "file"}
    for cluster in CLUSTERS:
        acts.append(SampleAct(at + timedelta(minutes=9), ANNA, "cluster.created", cluster.name, detail=file))
        for name, role in cluster.instances.items():
            host = instances[name].host
            acts.append(SampleAct(at + timedelta(minutes=9, seconds=1), ANNA, "host.created", host.name, detail=file))
            of_it = {**file, "cluster": cluster.name, "role": role, "host": host.name}
            acts.append(SampleAct(at + timedelta(minutes=9, seconds=2), ANNA, "instance.created", name, detail=of_it))
            acts.append(
                SampleAct(at + timedelta(minutes=25), ANNA, "host.key_accepted", host.name, detail={"new": "ed25519"})
            )
        for item in cluster.schedules:
            of_it = {**file, "instance": item.instance, "method": item.method, "cron": item.cron, "run_by": item.run_by}
            acts.append(SampleAct(at + timedelta(minutes=40), ANNA, "schedule.created", item.name, detail=of_it))
    return acts


def _comings(begin: datetime, now: datetime, dice: random.Random) -> list[SampleAct]:
    """Return logins and logouts on working days, with occasional wrong passwords."""
    acts, day = [], begin
    while day < now:
        for name in PEOPLE:
            is_there = dice.random() < (0.5 if day.weekday() < 5 else 0.05)
            at = day.replace(hour=7, minute=30) + timedelta(minutes=dice.uniform(0, 150))
            if is_there and dice.random() < 0.08:
                acts.append(SampleAct(at - timedelta(seconds=20), name, "login.failed", "dbops"))
            if is_there:
                acts.append(SampleAct(at, name, "login", "dbops"))
                acts.append(SampleAct(at + timedelta(hours=dice.uniform(0.4, 8)), name, "logout", "dbops"))
        day += timedelta(days=1)
    guessed = moment(now, 18, "03:41")
    names = ("admin", "root", "dba", "admin", "test")
    acts += [
        SampleAct(guessed + timedelta(seconds=7 * number), name, "login.failed", "dbops", address=A_STRANGER)
        for number, name in enumerate(names)
    ]
    return acts


def _of_rebuilds() -> list[SampleAct]:
    acts = []
    for row in Rebuild.objects.select_related("target", "source", "requested_by").order_by("requested_at"):
        name, target, about = row.requested_by.get_username(), row.target.name, {"rebuild": row.pk}
        asked = {**about, "source": row.source.name}
        if row.follows_id:
            acts.append(
                SampleAct(
                    row.requested_at,
                    name,
                    "rebuild.rollback_requested",
                    target,
                    row.reason,
                    {**about, "follows": row.follows_id},
                )  # fmt: skip
            )
        else:
            asked |= {"fingerprint": row.plan_fingerprint, "old_data": row.plan["old_data"], "start": "soon"}
            acts.append(SampleAct(row.requested_at, name, "rebuild.requested", target, row.reason, asked))
        if row.cancel_requested_at:
            acts.append(
                SampleAct(
                    row.cancel_requested_at, row.cancel_requested_by, "rebuild.cancel_requested", target, detail=about
                )
            )
        if row.finished_at:
            detail = {
                **about,
                "outcome": row.outcome,
                "error": row.error,
                "source": row.source.name,
                "method": row.method,
                "cipher": row.plan["cipher"],
                "bytes": row.checkpoint.get("stream.bytes"),
                "requested_by": name,
            }
            acts.append(SampleAct(row.finished_at, SYSTEM, f"rebuild.{row.status}", target, detail=detail))
    return acts


def _of_backups() -> list[SampleAct]:
    ended = BackupRun.objects.filter(origin=SeenBy.MANAGED, status__in=(RunStatus.SUCCEEDED, RunStatus.FAILED))
    acts = []
    for row in ended.select_related("instance", "schedule").order_by("finished_at"):
        about = {"backup_run": row.pk, "schedule": row.schedule.name if row.schedule else "", "outcome": row.outcome}
        if row.finished_at:
            acts.append(
                SampleAct(
                    row.finished_at,
                    SYSTEM,
                    f"backup.{row.status}",
                    row.instance.name,
                    detail={**about, "error": row.error},
                )
            )
    return acts


def _of_restore_tests() -> list[SampleAct]:
    ended = RestoreTest.objects.select_related("source").order_by("pk")
    return [
        SampleAct(
            row.finished_at,
            SYSTEM,
            f"restore_test.{row.status}",
            row.source.name,
            detail={"restore_test": row.pk, "backup_run": row.run_id, "code": row.error.get("code", "")},
        )
        for row in ended
        if row.finished_at
    ]


def _of_load_tests() -> list[SampleAct]:
    acts = []
    for row in LoadTest.objects.select_related("source", "host").order_by("pk"):
        about = {"load_test": row.pk, "source": row.source.name}
        acts.append(
            SampleAct(row.requested_at, row.requested_by, "load_test.requested", row.host.name, row.reason, about)
        )
        if row.finished_at:
            ended = {**about, "code": row.error.get("code", "")}
            acts.append(SampleAct(row.finished_at, SYSTEM, f"load_test.{row.status}", row.host.name, detail=ended))
    return acts


def _of_attestations() -> list[SampleAct]:
    return [
        SampleAct(
            row.attested_at,
            row.attested_by,
            "storage.attested",
            row.instance.name,
            row.reference,
            {"kind": row.kind, "storage": row.storage, "review_on": str(row.review_on), "instance": row.instance.name},
        )
        for row in StorageAttestation.objects.select_related("instance")
    ]


def _of_maintenance(now: datetime) -> list[SampleAct]:
    acts = []
    for one in maintenance(now):
        announced = min(one.start, now) - timedelta(days=2, hours=5, minutes=13)
        times = {"starts_at": one.start.isoformat(timespec="minutes"), "ends_at": one.end.isoformat(timespec="minutes")}
        acts.append(SampleAct(announced, one.by, "maintenance.announced", one.cluster, one.why, times))
    return acts


def _others(now: datetime) -> list[SampleAct]:
    """Return other actions of people."""
    verified = [SampleAct(moment(now, days, "08:15"), EVA, "audit.verified", "audit log", detail={"findings": 0}) for days in
                range(5, 56, 7)]  # fmt: skip
    return [
        *verified,
        SampleAct(moment(now, 54, "10:20"), ANNA, "token.made", "billing-cron", detail={"purpose": "report", "cluster": "billing"}),
        SampleAct(moment(now, 54, "10:31"), ANNA, "token.made", "crm-cron", detail={"purpose": "report", "cluster": "crm"}),
        SampleAct(moment(now, 53, "14:02"), JONAS, "test.requested", "shop-r1 from shop-b1", detail={"kind": "stream"}),
        SampleAct(moment(now, 50, "09:05"), EVA, "notification.channel_added", "dba-mail", detail={
            "kind": "message", "address": "mailtos://mail.example.org to dba@example.org", "ca": False, "every_minutes": None}),
        SampleAct(moment(now, 50, "09:09"), EVA, "notification.rule_added", "All by mail", detail={
            "channel": "dba-mail", "digest": "daily"}),
        SampleAct(moment(now, 46, "09:44"), JONAS, "schedule.changed", "shop-nightly", detail={
            "via": "browser", "cron": "0 2 * * * → 30 1 * * *"}),
        SampleAct(moment(now, 40, "22:51"), JONAS, "rebuild.priority_changed", "search-r2", "Serves the app", {"priority": 1}),
        SampleAct(moment(now, 37, "11:10"), PRIYA, "cluster.changed", "search", detail={
            "via": "browser", "wanted replicas": "(empty) → 3"}),
        SampleAct(moment(now, 27, "13:30"), ANNA, "account.created", "m.rossi", detail={"group": "viewer", "superuser": False}),
        SampleAct(moment(now, 26, "15:12"), ANNA, "host.key_accepted", "db-crm-r1", "New hardware; compared with the label on it",
            {"old": "ed25519", "new": "ed25519"}),
        SampleAct(moment(now, 25, "09:20"), PRIYA, "backup.marked_ended", "search-b2", "The dump was stopped by hand on the host"),
        SampleAct(moment(now, 19, "08:40"), ANNA, "account.deactivated", "m.rossi", "Left the company"),
        SampleAct(moment(now, 15, "08:05"), PRIYA, "host.key_accepted", "db-crm-b1", "Mainboard replaced; read on the console",
            {"old": "ed25519", "new": "ed25519"}),
        SampleAct(moment(now, 12, "10:05"), PRIYA, "capacity.thresholds_changed", "shop", detail={"schemas": "(empty) → 600"}),
        SampleAct(moment(now, 7, "16:25"), EVA, "audit.exported", "audit log", detail={"format": "csv", "filter": {"view": "overrides"}}),
        SampleAct(moment(now, 1, "15:40"), ANNA, "schedule.changed", "billing-dump", detail={
            "via": "browser", "late after seconds": "900 → 1800"}),
    ]  # fmt: skip
