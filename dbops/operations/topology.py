"""Request discoveries, and accept topology differences."""

from typing import NoReturn

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import transaction

from dbops.audit.log import append
from dbops.database import clock
from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase
from dbops.engine.states import Role
from dbops.engine.topology.difference_kinds import CHANGES_ROLES, REPLACED
from dbops.fleetfile import stored
from dbops.fleetfile.rules import field_problem
from dbops.fleetfile.store import store
from dbops.lifecycle import topology_differences
from dbops.messaging.wakeups import nudge, publish_discovery
from dbops.models import Cluster, Discovery, Instance, TopologyDifference
from dbops.models.secret import vault_detail
from dbops.operations.audit import NO_REASON, says_why
from dbops.security.permissions import require_operator

NOTHING = phrase("Nothing was changed.")


def request_discovery(
    *, actor: str, address: str, port: int, cluster: Cluster | None = None, user: str = "", password: str = ""
) -> Discovery:
    """Queue a discovery from an address. The caller has checked the permission of ``actor``.

    Args:
        cluster: the cluster whose stored dashboard account logs in; else ``user`` and ``password``, which is kept
            encrypted until the discovery has ended. It can be a ``VaultPath``.

    Raises:
        Refused: address, port or account cannot be used (``discovery.invalid``).
    """
    problem = field_problem(Instance, "address", address) or field_problem(Instance, "port", port)
    if cluster and not cluster.admin_user:
        problem = problem or phrase("the cluster {cluster} has no dashboard account", cluster=cluster.name)
    if not cluster and not user:
        problem = problem or phrase("no account was given to log in with")
    if problem:
        raise Refused(
            "discovery.invalid",
            phrase("Discovering from {address}:{port}", address=address, port=port),
            cause=problem.rstrip("."),
        )
    with transaction.atomic():
        row = Discovery.objects.create(
            requested_by=actor,
            requested_at=clock.now(),
            address=address,
            port=port,
            cluster=cluster,
            user="" if cluster else user,
            password="" if cluster else password,
            status=Discovery.Statuses.QUEUED,
        )
        account = f"cluster {cluster.name}" if cluster else user
        append(
            actor=actor,
            action="discovery.requested",
            subject=f"{address}:{port}",
            detail={"discovery": row.pk, "account": account} | vault_detail(row),
        )
        publish_discovery(row.pk)
    return row


def accept_roles(*, actor: User, row: TopologyDifference, typed_name: str, reason: str) -> None:
    """Make the difference's subject the primary of the inventory; the former primary becomes a replica. No server is changed.

    Args:
        actor: must be an operator.
        typed_name: the person's input, which must be the new primary's name.

    Raises:
        Refused: ``access.denied``, ``topology.name``, ``topology.reason``, ``topology.stale`` (it is gone, accepted, or the inventory
            was changed since), ``topology.roles`` (the difference is not about roles), ``fleet.busy`` (a rebuild uses an instance).
    """
    operation = phrase(
        "Accepting that {subject} is the primary of {cluster}", subject=row.subject, cluster=row.cluster.name
    )
    _check(actor, operation, reason, row.cluster_id)
    if row.code not in CHANGES_ROLES:
        _refuse("topology.roles", operation, phrase("{code} is no change of the primary", code=row.code))
    if typed_name != row.subject:
        found = phrase(
            "the name typed is {typed_name}, the new primary is {subject}",
            typed_name=f"{typed_name!r}",
            subject=f"{row.subject!r}",
        )
        _refuse("topology.name", operation, found)
    try:
        with transaction.atomic():
            _change_roles(actor.get_username(), row, reason.strip(), operation)
    except ValidationError as error:
        raise Refused(
            "fleet.invalid",
            operation,
            cause=" ".join(error.messages),
            next_step=phrase("Correct the instances first."),
        ) from error


def _change_roles(by: str, row: TopologyDifference, reason: str, operation: str) -> None:
    rows = stored.load(lock=True)
    members = [item for item in rows.instances.values() if item.cluster_id == row.cluster_id]
    old = next((item for item in members if item.role == Role.PRIMARY), None)
    new = rows.instances.get(row.subject)
    if new is None or new.cluster_id != row.cluster_id or row.about != (old.name if old else ""):
        _refuse("topology.stale", operation, phrase("the inventory has changed since the difference was detected"))
    for item in [*([old] if old else []), new]:
        if why := rows.why_frozen(item, ("role",)):
            raise Refused("fleet.busy", operation, cause=why)
    if not topology_differences.accept_difference(row, by=by, how="roles", reason=reason):
        _refuse("topology.stale", operation, phrase("it is gone, or another user accepted it"))
    # A cluster has one primary at every moment: the role is freed before it is assigned.
    if old is not None:
        store(old, Instance, {"role": Role.REPLICA.value}, actor=by)
    store(new, Instance, {"role": Role.PRIMARY.value}, actor=by)
    topology_differences.note_differences([row.cluster_id])
    append(
        actor=by,
        action="topology.roles_accepted",
        subject=row.cluster.name,
        reason=reason,
        detail={"difference": row.code, "primary": new.name, "was": old.name if old else "", "seen": row.detail},
    )
    nudge()


def accept_as_intended(*, actor: User, row: TopologyDifference, reason: str) -> None:
    """Accept a difference as intended: it stays on the page and no longer blocks rebuilds.

    For a replaced server or replaced data this confirms the new one.

    Raises:
        Refused: ``access.denied``, ``topology.reason``, ``topology.stale`` (gone, or accepted).
    """
    operation = phrase("Accepting a difference of {cluster} as intended", cluster=row.cluster.name)
    _check(actor, operation, reason, row.cluster_id)
    by = actor.get_username()
    with transaction.atomic():
        if not topology_differences.accept_difference(row, by=by, how="intended", reason=reason.strip()):
            _refuse("topology.stale", operation, phrase("it is gone, or another user accepted it"))
        if row.code in REPLACED and (
            instance := Instance.objects.filter(name=row.subject, cluster=row.cluster).first()
        ):
            topology_differences.accept_replaced(instance, row)
        append(
            actor=by,
            action="topology.difference_accepted",
            subject=row.cluster.name,
            instance=row.subject,
            reason=reason.strip(),
            detail={"difference": row.code, "seen": row.detail},
        )
        nudge()


def withdraw(*, actor: User, row: TopologyDifference) -> None:
    """Withdraw an acceptance: the difference is open again.

    Raises:
        Refused: ``access.denied``, ``topology.stale`` (it is gone, or not accepted).
    """
    operation = phrase("Opening a difference of {cluster} again", cluster=row.cluster.name)
    require_operator(actor, operation, row.cluster_id)
    with transaction.atomic():
        if not topology_differences.withdraw_acceptance(row):
            _refuse("topology.stale", operation, phrase("it is gone, or not accepted"))
        append(
            actor=actor.get_username(),
            action="topology.acceptance_withdrawn",
            subject=row.cluster.name,
            instance=row.subject,
            detail={"difference": row.code, "seen": row.detail},
        )


def _check(actor: User, operation: str, reason: str, cluster: int) -> None:
    require_operator(actor, operation, cluster)
    if not says_why(reason):
        _refuse("topology.reason", operation, NO_REASON)


def _refuse(code: str, operation: str, found: str) -> NoReturn:
    raise Refused(code, operation, cause=found)
