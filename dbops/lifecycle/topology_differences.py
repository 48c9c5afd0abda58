"""Write topology differences after probes: begin, confirm, accept and end them.

Every write holds the cluster's row and reads the facts again under it, so that of two simultaneous probes the slower one cannot
write old facts.
"""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F, QuerySet

from dbops.audit.log import SYSTEM, append
from dbops.database import clock
from dbops.engine.facts.age import TOLERANCE_SECONDS, age_seconds
from dbops.engine.states import Role
from dbops.engine.topology import members as engine
from dbops.engine.topology.comparison import Judgement, compare
from dbops.engine.topology.difference_kinds import REPLACED
from dbops.engine.topology.differences import OpenDifference
from dbops.models import Cluster, Hold, Instance, InstanceState, Rebuild, ServerIdentity, TopologyDifference

ABOUT_CHARACTERS = TopologyDifference._meta.get_field("about").max_length


def note_differences(cluster_ids: Collection[int]) -> None:
    """Compare these clusters with their latest facts, and write differences that began, were seen again, or ended. Four queries
    without differences.
    """
    written = set(_rows(cluster_ids).values_list("cluster_id", flat=True))
    written |= {cluster_id for cluster_id, _ in _rebuilt(cluster_ids)}
    for cluster_id, cluster in _clusters(cluster_ids).items():
        if cluster_id in written or _has_changes(cluster):
            with transaction.atomic():
                _note_one(cluster_id)


def _has_changes(cluster: engine.KnownCluster) -> bool:
    is_new = any(
        cluster.is_read(member) and (not member.known_as or (member.files and not member.known_files))
        for member in cluster.members
    )
    return is_new or any(item.is_there for item in compare(cluster))


def _note_one(cluster_id: int) -> None:
    if not list(Cluster.objects.select_for_update().filter(pk=cluster_id).values_list("pk")):
        return
    _learn_identities(cluster_id)
    cluster = _clusters([cluster_id]).get(cluster_id)
    for item in _write(cluster_id, compare(cluster) if cluster else (), clock.now()):
        _audit_replaced(item)


def _rows(cluster_ids: Collection[int]) -> QuerySet[TopologyDifference]:
    return TopologyDifference.objects.filter(cluster_id__in=cluster_ids, gone_at=None)


def _write(cluster_id: int, judgements: Iterable[Judgement], now: datetime) -> list[Judgement]:
    """Begin, see again and end differences. Return those that were confirmed now."""
    confirmed = []
    listed = {(item.code, item.subject): item for item in judgements}
    seen: set[tuple[str, str]] = set()
    for row in _rows([cluster_id]):
        item = listed.get((row.code, row.subject))
        if item is None or item.is_there is False or (item.is_there and _about(item) != row.about):
            _end(row, now)
        elif item.is_there:
            seen.add((row.code, row.subject))
            if _see_again(row, item, now):
                confirmed.append(item)
    for key, item in listed.items():
        if item.is_there and key not in seen:
            _begin(cluster_id, item)
    return confirmed


def _about(item: Judgement) -> str:
    return item.about[:ABOUT_CHARACTERS]


def _begin(cluster_id: int, item: Judgement) -> None:
    about = _about(item)
    name = "\0".join((str(cluster_id), item.code, item.subject, about))
    read_at = max(item.rests_on)
    TopologyDifference.objects.create(
        cluster_id=cluster_id,
        code=item.code,
        subject=item.subject,
        about=about,
        detail=item.detail,
        matters=item.matters,
        first_seen_at=read_at,
        last_seen_at=read_at,
        open_key=hashlib.sha256(name.encode()).hexdigest(),
    )


def _see_again(row: TopologyDifference, item: Judgement, now: datetime) -> bool:
    """Confirm a difference once every server involved was probed after the first sighting. Return whether it was confirmed now."""
    changes = {"last_seen_at": max(item.rests_on), "detail": item.detail, "matters": item.matters}
    is_confirmed = row.confirmed_at is None and min(item.rests_on) > row.first_seen_at
    if is_confirmed:
        changes["confirmed_at"] = now
    return bool(TopologyDifference.objects.filter(pk=row.pk, gone_at=None).update(**changes)) and is_confirmed


def _audit_replaced(item: Judgement) -> None:
    """Record in the audit log that data was not made by a job of dbops."""
    if item.code in REPLACED:
        append(
            actor=SYSTEM,
            action="instance.found_replaced",
            subject=item.subject,
            detail={"difference": item.code, "seen": item.detail, "read_at": max(item.rests_on).isoformat()},
        )


def _end(row: TopologyDifference, now: datetime) -> None:
    """End a difference. An unconfirmed one is deleted: it was a moment between two states."""
    mine = TopologyDifference.objects.filter(pk=row.pk, gone_at=None)
    if row.confirmed_at is None and row.accepted_at is None:
        mine.delete()
    else:
        mine.update(gone_at=now, open_key=None)


def _clusters(cluster_ids: Collection[int]) -> dict[int, engine.KnownCluster]:
    """Return clusters in the engine's form, without TiDB nodes: all are equal, and keep no data. Three queries."""
    instances = (
        Instance.objects.filter(cluster_id__in=cluster_ids)
        .exclude(role=Role.TIDB)
        .select_related("host", "cluster", "state", "identity")
    )
    ours = set(
        Hold.objects.filter(purpose="target", instance__cluster_id__in=cluster_ids).values_list(
            "instance_id", flat=True
        )
    )
    members: dict[int, list[engine.StoredInstance]] = defaultdict(list)
    addresses: dict[int, tuple[str, ...]] = {}
    for instance in instances.order_by("name"):
        known = getattr(instance, "identity", None)
        row = stored_of(
            instance,
            known_as=known.identity if known else "",
            known_files=known.files if known else "",
            is_ours=instance.pk in ours,
        )
        members[instance.cluster_id].append(row)
        addresses[instance.cluster_id] = tuple(instance.cluster.write_addresses)
    now = clock.now()
    since, until = now - timedelta(seconds=settings.FACTS_MAX_AGE_SECONDS), now + timedelta(seconds=TOLERANCE_SECONDS)
    return {pk: engine.KnownCluster(tuple(found), since, addresses[pk], until) for pk, found in members.items()}


def stored_of(
    instance: Instance, *, known_as: str = "", known_files: str = "", is_ours: bool = False
) -> engine.StoredInstance:
    """Return an instance in the engine's form. Its ``state`` and ``host`` are read from the row."""
    state = getattr(instance, "state", None)
    facts = state.facts() if state else None
    names = [instance.host.name, instance.host.ssh_address, instance.host.stream_address]
    names += [facts.server.hostname] if facts and facts.server else []
    names += [facts.host.local_address, facts.host.hostname] if facts and facts.host else []
    return engine.StoredInstance(
        name=instance.name,
        role=instance.role,
        address=instance.address,
        port=instance.port,
        facts=facts,
        aliases=tuple(dict.fromkeys(name for name in names if name)),
        known_as=known_as,
        is_ours=is_ours,
        known_files=known_files,
        lost_gtid=state.gtid_lost if state else "",
    )


def _learn_identities(cluster_id: int) -> None:
    """Store the identity of servers without one, and at the first probe after a rebuild by dbops.

    The time is updated even if the same server answers: a rebuild explains one change of server, and not another one months
    later. A server that is another instance's is never stored: an address can lead to the wrong machine for a while.
    """
    now = clock.now()
    held = Hold.objects.filter(purpose="target", instance__cluster_id=cluster_id).values_list("instance_id", flat=True)
    rows = Instance.objects.filter(cluster_id=cluster_id).exclude(pk__in=list(held)).select_related("state", "identity")
    rebuilt = {instance_id for _, instance_id in _rebuilt([cluster_id])}
    identities = dict(
        ServerIdentity.objects.filter(instance__cluster_id=cluster_id).values_list("instance_id", "identity")
    )
    for instance in rows:
        state, known = getattr(instance, "state", None), getattr(instance, "identity", None)
        facts = state.facts() if state else None
        if facts is None or facts.server is None:
            continue
        age = age_seconds(facts.observed_at, now)
        if age is None or age > settings.FACTS_MAX_AGE_SECONDS:
            continue
        files = facts.datadir.files if facts.datadir else ""
        if known is None or instance.pk in rebuilt:
            others = {identity for pk, identity in identities.items() if pk != instance.pk}
            if not engine.is_of_another(facts, others, was_known=known is not None):
                identities[instance.pk] = engine.identity_of(facts.server)
                _learn(instance.pk, identities[instance.pk], files, facts.observed_at)
        elif not known.files and files:
            ServerIdentity.objects.filter(instance=instance).update(files=files)


def _learn(instance_id: int, identity: str, files: str, at: datetime) -> None:
    changes = {"identity": identity, "files": files, "noted_at": at}
    ServerIdentity.objects.update_or_create(instance_id=instance_id, defaults=changes)
    InstanceState.objects.filter(instance=instance_id).exclude(gtid_lost="").update(gtid_lost="")


def _rebuilt(cluster_ids: Collection[int]) -> set[tuple[int, int]]:
    """Return the clusters and instances probed after a rebuild by dbops, whose identity was not stored since. One query."""
    rebuilds = Rebuild.objects.filter(
        target__cluster_id__in=cluster_ids,
        started_at__isnull=False,
        finished_at__gte=F("target__identity__noted_at"),
        target__state__observed_at__gt=F("finished_at"),
    )
    rows = rebuilds.order_by().values_list("target__cluster_id", "target_id", "checkpoint__touched")
    return {(cluster_id, instance_id) for cluster_id, instance_id, touched in rows if touched}


def accept_replaced(instance: Instance, row: TopologyDifference) -> None:
    """Store that the data of a difference is correct: only the data it is about, not later data."""
    if row.code == "history_lost":
        InstanceState.objects.filter(instance=instance, gtid_lost__startswith=row.about).update(gtid_lost="")
    else:
        changes = {"files" if row.code == "data_replaced" else "identity": row.about, "noted_at": clock.now()}
        ServerIdentity.objects.update_or_create(instance=instance, defaults=changes)


def rename_differences(instance: Instance, before: str) -> None:
    """Rename data differences of a renamed instance, for its lineage. The other differences are found again."""
    rows = TopologyDifference.objects.filter(cluster=instance.cluster_id, subject=before, code__in=REPLACED)
    rows.update(subject=instance.name)


def open_differences(cluster_ids: Collection[int] | None = None) -> dict[int, tuple[OpenDifference, ...]]:
    """Return confirmed open differences by the cluster's primary key; those that matter first. One query.

    Without ``cluster_ids``: of every cluster.
    """
    found: dict[int, list[OpenDifference]] = defaultdict(list)
    rows = TopologyDifference.objects.filter(gone_at=None, confirmed_at__isnull=False, accepted_at=None)
    for row in rows if cluster_ids is None else rows.filter(cluster_id__in=cluster_ids):
        found[row.cluster_id].append(OpenDifference(row.code, row.subject, row.detail, row.first_seen_at, row.matters))
    return {pk: tuple(rows) for pk, rows in found.items()}


def blocks_rebuilds(cluster_ids: Collection[int] | None = None) -> dict[int, tuple[OpenDifference, ...]]:
    """Return why no rebuild of a cluster can start, by the cluster's primary key; clusters without a reason are left out. One query.

    Without ``cluster_ids``: of every cluster. ``engine.topology.differences.describe_difference`` makes one sentence of a value.
    """
    found = open_differences(cluster_ids)
    mattering = {pk: tuple(item for item in rows if item.matters) for pk, rows in found.items()}
    return {pk: rows for pk, rows in mattering.items() if rows}


def accept_difference(row: TopologyDifference, *, by: str, how: str, reason: str) -> bool:
    """Record that a person accepts an open difference. Return whether it was still open. The caller writes the audit entry."""
    still = TopologyDifference.objects.filter(pk=row.pk, gone_at=None, accepted_at=None, confirmed_at__isnull=False)
    return bool(still.update(accepted_at=clock.now(), accepted_by=by, accepted_as=how, reason=reason))


def withdraw_acceptance(row: TopologyDifference) -> bool:
    """Reopen a difference that was accepted as intended. Return whether it was accepted. The caller writes the audit entry."""
    mine = TopologyDifference.objects.filter(pk=row.pk, gone_at=None, accepted_at__isnull=False)
    return bool(mine.update(accepted_at=None, accepted_by="", accepted_as="", reason=""))
