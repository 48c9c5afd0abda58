"""Decide how the target replicates after the rebuild: as before, as far as it can be made again."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dbops.engine.facts.instance import ReplicationFacts
from dbops.engine.flavors import Flavor
from dbops.engine.flavors.connection_options import name_of, value_of
from dbops.engine.planning.inputs import KnownInstance, PlanInputs
from dbops.engine.rebuilds.kept_replication import Fate, KeptReplication, KeptSetting

INVENTORY = "As the inventory says."
UNSETTABLE = "This version sets it by its option file only: set at run time, it is lost."
#: Settings whose ordinary value is not worth a line.
ORDINARY = {"", "0", "uncompressed", "3", "STREAM"}
#: Options that every connection has: shown where they differ from the servers' defaults.
DEFAULTS = {"CONNECT_RETRY": "60", "RETRY_COUNT": "86400"}


def connections_of(target: KnownInstance) -> tuple[ReplicationFacts, ...] | None:
    """Return the target's connections now, or when it was last seen; ``None`` if it was never seen."""
    if target.server:
        return target.server.replication
    return target.facts.replication_seen if target.facts else None


def kept_replication(inputs: PlanInputs, flavor: Flavor, *, uses_gtid: bool) -> KeptReplication | None:
    """Return what the rebuild restores; ``None`` if nothing is known (also a record of an older version), or nothing was replicated.

    Several connections give the first one: the check ``target.sources`` refuses such a plan. After a rebuild that did not succeed, the
    target's own connection is that of an incomplete copy: then what it had before counts.
    """
    links, wanted = connections_of(inputs.target), _wanted(inputs.target, flavor)
    if left := inputs.unrestored:
        changed = {name: value for name, value in wanted.items() if left.options.get(name, "") != value}
        lines = [one for one in left.settings if one.name not in changed]
        lines += [
            KeptSetting(name, left.options.get(name, ""), value, Fate.CHANGED, INVENTORY)
            for name, value in changed.items()
        ]
        return replace(left, options=left.options | wanted, settings=tuple(lines), is_last_known=True)
    if not links or not links[0].options:
        settings = tuple(KeptSetting(name, "", value, Fate.CHANGED, INVENTORY) for name, value in wanted.items())
        return KeptReplication(options=wanted, settings=settings) if wanted else None
    link = links[0]
    known = {option.name for option in flavor.connection_options}
    options = {name: value for name, value in link.options.items() if name in known} | wanted
    return KeptReplication(
        channel=link.channel,
        options=options,
        filters={name: value for name, value in link.filters.items() if name in flavor.filter_names},
        settings=tuple(_settings(link, options, inputs, flavor.filter_names, uses_gtid=uses_gtid)),
        is_last_known=inputs.target.server is None,
    )


def _wanted(target: KnownInstance, flavor: Flavor) -> dict[str, str]:
    """Return the options that the inventory sets, whatever they were."""
    names = {option.name: option.name for option in flavor.connection_options}
    found = {}
    if target.replication_tls:
        found[name_of("SSL", names)] = str(int(target.replication_tls != "off"))
        found[name_of("SSL_VERIFY_SERVER_CERT", names)] = str(int(target.replication_tls == "verify"))
    if target.replication_tls_ca:
        found[name_of("SSL_CA", names)] = target.replication_tls_ca
    if target.replication_delay_seconds is not None:
        found[name_of("DELAY", names)] = str(target.replication_delay_seconds)
    return found


def _settings(
    link: ReplicationFacts, options: dict[str, str], inputs: PlanInputs, filter_names: Sequence[str], *, uses_gtid: bool
) -> Iterator[KeptSetting]:
    if inputs.primary:
        yield from _moved("source", f"{link.source_host}:{link.source_port}", _follows(inputs), "The primary.")
    if link.channel:
        yield KeptSetting("connection name", link.channel, link.channel, Fate.KEPT)
    if link.source_user and inputs.replication_user:
        yield from _moved("account", link.source_user, inputs.replication_user, "The cluster's replication account.")
    before, after = (_position(gtid) for gtid in (link.uses_gtid, uses_gtid))
    yield from _moved("position", before, after, "As the source of the copy does.")
    for name, value in options.items():
        before = link.options.get(name, "")
        if before != value:
            yield KeptSetting(name, before, value, Fate.CHANGED, INVENTORY)
        elif value not in ORDINARY and DEFAULTS.get(name.partition("_")[2]) != value:
            yield KeptSetting(name, value, value, Fate.KEPT)
    for name, value in link.filters.items():
        if name in filter_names:
            yield KeptSetting(name, value, value, Fate.KEPT)
        else:
            yield KeptSetting(name, value, "", Fate.LOST, UNSETTABLE)


def _follows(inputs: PlanInputs) -> str:
    return f"{inputs.primary.address}:{inputs.primary.port}" if inputs.primary else ""


def _moved(name: str, before: str, after: str, reason: str) -> Iterator[KeptSetting]:
    if before == after:
        yield KeptSetting(name, before, after, Fate.KEPT)
    else:
        yield KeptSetting(name, before, after, Fate.CHANGED, reason)


def _position(gtid: bool) -> str:
    return "GTID" if gtid else "file and position"


def files_of(options: dict[str, str]) -> dict[str, str]:
    """Return the files that the connection's options name."""
    ends = ("SSL_CA", "SSL_CAPATH", "SSL_CERT", "SSL_KEY", "SSL_CRL", "SSL_CRLPATH", "PUBLIC_KEY_PATH")
    return {end: value for end in ends if (value := value_of(end, options))}
