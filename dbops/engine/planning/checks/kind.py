"""Check what the servers are: members of a group, servers of a managed service, or different products."""

from collections.abc import Iterator

from dbops.engine.facts.server_kind import GALERA, MemberGroup, ServerKind
from dbops.engine.flavors.server_kind import configured_group
from dbops.engine.phrases import joined, phrase
from dbops.engine.planning.checks.findings import ok, refusal, unknown, warning
from dbops.engine.planning.inputs import KnownInstance, PlanInputs
from dbops.engine.rebuilds.plan import Finding

#: How a member comes back. The group copies its data itself, and counts its transactions.
REJOIN = {
    True: (
        phrase(
            "Start its server: Galera sends what it lacks (IST), or a whole copy (SST) if its data directory is "
            "empty. To make it an asynchronous replica, remove the wsrep options from its option file first."
        )
    ),
    False: (
        phrase(
            "Start Group Replication on it: distributed recovery sends what it lacks, or clones. In an InnoDB "
            "Cluster, use cluster.rejoinInstance(), or cluster.addInstance() with recoveryMethod 'clone'. To "
            "make it an asynchronous replica, remove its group_replication options first, persisted ones "
            "included."
        )
    ),
}
ANOTHER_SOURCE = phrase(
    "Choose an asynchronous replica of the primary. The first one can come from a backup of the primary "
    "(archive, dump)."
)
OWN_COPIES = {
    "Amazon Aurora": phrase("Add a reader to the cluster, or restore a snapshot."),
    "Amazon RDS": phrase("Create a read replica, or restore a snapshot."),
    "Google Cloud SQL": phrase("Create a read replica, or clone the instance."),
    "Azure Database": phrase("Create a read replica, or restore a backup."),
}
#: States in which a member has all data and takes part.
FIT = {"", "ONLINE PRIMARY", "ONLINE SECONDARY", "ONLINE", "Synced", "Donor/Desynced"}


def target_is_in_no_group(inputs: PlanInputs) -> Iterator[Finding]:
    """Refuse a member of a group: the group brings it back, and a copy by dbops would not know the group's state."""
    code, title, target = (
        "target.group",
        phrase("Group of the target"),
        inputs.target,
    )
    if target.facts is None:
        return
    config, flavor = target.facts.config, inputs.flavor.name if inputs.flavor else ""
    configured = configured_group(config.options, flavor=flavor) if config else None
    group = group_of(target)
    if group:
        seen = (
            phrase("{target} is a member of the {group}.", target=target.name, group=group.description)
            if target.server
            else phrase("{target} is or was a member of the {group}.", target=target.name, group=group.description)
        )
        yield refusal(code, title, seen, REJOIN[group.mechanism == GALERA])
    elif configured:
        seen = phrase(
            "{defaults_file} makes {target} a member of the {description}.",
            defaults_file=target.defaults_file,
            target=target.name,
            description=configured.description,
        )
        yield refusal(code, title, seen, REJOIN[configured.mechanism == GALERA])
    else:
        yield ok(code, title, phrase("None."))


def source_is_in_no_group(inputs: PlanInputs) -> Iterator[Finding]:
    """Refuse to read a member: it takes the group's writes, and slows all members down when it falls behind (flow control)."""
    code, title, group = (
        "source.group",
        phrase("Group of the source"),
        group_of(inputs.source),
    )
    if inputs.source.server is None:
        return
    if group:
        seen = phrase(
            "{source} is a member of the {description}. It takes part in every write: while it is read, it can "
            "slow down all members.",
            source=inputs.source.name,
            description=group.description,
        )
        yield refusal(code, title, seen, ANOTHER_SOURCE)
    else:
        yield ok(code, title, phrase("None."))


def backup_counts_as_the_primary_does(inputs: PlanInputs) -> Iterator[Finding]:
    """Refuse the backup of a member whose GTIDs are its own: at the primary they name other transactions."""
    code, title = "source.group", phrase("GTIDs of the backup")
    source, primary = inputs.source, inputs.primary
    group = group_of(source)
    if primary is None or (source.facts is None and group is None):
        return
    if group is None or source.name == primary.name:
        yield ok(
            code, title, phrase("The backup is of the primary.") if group else phrase("It is of no group's member.")
        )
    elif not group.is_of(group_of(primary)) or not group.shares_gtids:
        seen = phrase(
            "The backup is of {source}, a member of the {description}, whose GTIDs are not those of {primary}.",
            source=source.name,
            description=group.description,
            primary=primary.name,
        )
        yield refusal(
            code,
            title,
            seen,
            phrase("Use a backup of {primary}, or of an asynchronous replica of it.", primary=primary.name),
        )
    else:
        yield ok(
            code,
            title,
            phrase(
                "{source} and {primary} are members of the {description}.",
                source=source.name,
                primary=primary.name,
                description=group.description,
            ),
        )


def primary_can_be_followed(inputs: PlanInputs) -> Iterator[Finding]:
    """Check a primary that is a member of a group: what it logs, and what its GTIDs mean on another member."""
    code, title, primary = "primary.group", phrase("Group of the primary"), inputs.primary
    server = primary.server if primary else None
    if primary is None or server is None:
        return
    group = server.group
    if group is None:
        yield ok(code, title, phrase("It is in no Galera cluster or replication group."))
        return
    seen = phrase("{primary} is a member of the {description}.", primary=primary.name, description=group.description)
    if not (server.log_bin and server.log_replica_updates):
        off = phrase("log_slave_updates is off: its binary log lacks the writes of the other members.")
        yield refusal(
            code, title, joined((seen, off)), phrase("Turn log_slave_updates on, or choose another member as primary.")
        )
    elif f"{group.state} {group.role}".strip() not in FIT:
        yield warning(code, title, seen, phrase("Wait until it takes part in the group again."))
    elif not group.shares_gtids:
        advice = phrase(
            "Its GTIDs are its own (wsrep_gtid_mode is OFF), so the copy can follow no other member later. If "
            "this member is lost, the replica needs another rebuild."
        )
        yield warning(code, title, seen, advice)
    else:
        yield ok(code, title, phrase("{seen} Its GTIDs are the same on each member.", seen=seen))


def target_is_not_managed(inputs: PlanInputs) -> Iterator[Finding]:
    code, title = "target.managed", phrase("Managed service of the target")
    kind = kind_of(inputs.target)
    if inputs.target.server is None:
        return
    if kind is None:
        yield unknown(code, title, phrase("the product of {target}", target=inputs.target.name))
    elif kind.managed_by:
        seen = phrase(
            "{target} is a server of {managed_by}, which has no host to log in to.",
            target=inputs.target.name,
            managed_by=kind.managed_by,
        )
        yield refusal(
            code,
            title,
            seen,
            phrase("Replace it with the service's own means: {own_copies}", own_copies=OWN_COPIES[kind.managed_by]),
        )
    else:
        yield ok(code, title, phrase("None: {product}.", product=kind.product))


def source_is_not_managed(inputs: PlanInputs) -> Iterator[Finding]:
    """Refuse a managed source: there is no host for the backup tool, no file, and no plugin or account for a clone."""
    code, title = "source.managed", phrase("Managed service of the source")
    kind = kind_of(inputs.source)
    if inputs.source.server is None:
        return
    if kind is None:
        yield unknown(code, title, phrase("the product of {source}", source=inputs.source.name))
    elif kind.managed_by:
        seen = phrase(
            "{source} is a server of {managed_by}, which gives no access to its files.",
            source=inputs.source.name,
            managed_by=kind.managed_by,
        )
        advice = phrase(
            "Choose a replica on a host of yours. To get a first one, load a dump of the service's server by "
            "hand, and attach the replica. Or stay within the service: {own_copies}",
            own_copies=OWN_COPIES[kind.managed_by],
        )
        yield refusal(code, title, seen, advice)
    else:
        yield ok(code, title, phrase("None: {product}.", product=kind.product))


def primary_keeps_what_it_says(inputs: PlanInputs) -> Iterator[Finding]:
    """Warn of a managed primary: its service removes binary logs by a rule of its own."""
    code, title, primary = (
        "primary.managed",
        phrase("Managed service of the primary"),
        inputs.primary,
    )
    kind = kind_of(primary) if primary else None
    if primary is None or primary.server is None:
        return
    if kind is None:
        yield unknown(code, title, phrase("the product of {primary}", primary=primary.name))
    elif kind.managed_by in ("Amazon RDS", "Amazon Aurora"):
        advice = phrase(
            "Check 'binlog retention hours' (CALL mysql.rds_show_configuration). Without it, binary logs are "
            "removed as soon as possible, whatever binlog_expire_logs_seconds says."
        )
        yield warning(
            code,
            title,
            phrase("{primary} is a server of {managed_by}.", primary=primary.name, managed_by=kind.managed_by),
            advice,
        )
    elif kind.managed_by:
        advice = phrase("Check in the service's settings how long it keeps binary logs.")
        yield warning(
            code,
            title,
            phrase("{primary} is a server of {managed_by}.", primary=primary.name, managed_by=kind.managed_by),
            advice,
        )
    else:
        yield ok(code, title, phrase("None: {product}.", product=kind.product))


def products_agree(inputs: PlanInputs) -> Iterator[Finding]:
    """Warn of another product: a feature of one maker in the files can stop the other's server, or stay unread."""
    code, title = "pair.product", phrase("Products of source and target")
    source, target = kind_of(inputs.source), kind_of(inputs.target)
    if source is None or target is None:
        return
    if source.product != target.product:
        advice = phrase(
            "Check that the source uses nothing that the other product lacks: compressed columns, MyRocks, "
            "encryption of one maker. A dump (method dump) has no such files."
        )
        yield warning(
            code,
            title,
            phrase("{product} and {target_product}.", product=source.product, target_product=target.product),
            advice,
        )
    else:
        yield ok(code, title, source.product)


def group_of(member: KnownInstance) -> MemberGroup | None:
    """Return the group of which an instance is a member, or was when it was last read."""
    if member.server:
        return member.server.group
    return member.facts.group_seen if member.facts else None


def kind_of(member: KnownInstance) -> ServerKind | None:
    return member.server.kind if member.server else None


#: For a target of any method.
OF_A_TARGET = (
    target_is_in_no_group,
    target_is_not_managed,
    primary_can_be_followed,
    primary_keeps_what_it_says,
)
#: For a method that reads the source's server.
CHECKS = (*OF_A_TARGET, source_is_in_no_group, source_is_not_managed, products_agree)
#: For a finished physical backup.
OF_A_BACKUP = (*OF_A_TARGET, backup_counts_as_the_primary_does, products_agree)
#: For a dump, which any product of the flavor can load.
OF_A_DUMP = (*OF_A_TARGET, backup_counts_as_the_primary_does)
