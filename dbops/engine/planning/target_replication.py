"""Decide how the target replicates after the rebuild: as before, as far as it can be made again."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dbops.engine.facts.instance import ReplicationFacts, RunTimeSetting
from dbops.engine.flavors import Flavor
from dbops.engine.flavors.connection_options import name_of, value_of
from dbops.engine.flavors.run_time_settings import after_restart, is_of_replication, outlasts_restart, same_setting
from dbops.engine.phrases import phrase
from dbops.engine.planning.inputs import KnownInstance, PlanInputs, connections_of
from dbops.engine.planning.upstream import intermediate_of
from dbops.engine.rebuilds.kept_replication import SOURCE_LINE, Fate, KeptReplication, KeptSetting

INVENTORY = phrase("As the inventory says.")
STARTED = phrase("Set at run time; the new server has the value of its option file.")
NO_PLUGIN = phrase("Its plugin was installed by a statement, and the source does not have it.")
UNSETTABLE = phrase("This version sets it by its option file only: set at run time, it is lost.")
#: Settings whose ordinary value is not worth a line.
ORDINARY = {"", "0", "uncompressed", "3", "STREAM"}
#: Options that every connection has: shown where they differ from the servers' defaults.
DEFAULTS = {"CONNECT_RETRY": "60", "RETRY_COUNT": "86400"}


def kept_replication(inputs: PlanInputs, flavor: Flavor, *, uses_gtid: bool) -> KeptReplication | None:
    """Return what the rebuild restores; ``None`` if nothing is known (also a record of an older version), or nothing was replicated.

    Several connections give the first one: the check ``target.sources`` refuses such a plan. After a rebuild that did not succeed, the
    target's own connection is that of an incomplete copy: then what it had before counts.
    """
    links, wanted = connections_of(inputs.target), _wanted(inputs.target, flavor)
    if left := inputs.unrestored:
        changed = {name: value for name, value in wanted.items() if left.options.get(name, "") != value}
        lines = [one for one in left.settings if one.name not in changed]
        if left.followed:
            lines = [*_followed(left.followed, inputs), *(one for one in lines if one.name != SOURCE_LINE)]
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
        followed=_address(link),
        options=options,
        filters={name: value for name, value in link.filters.items() if name in flavor.filter_names},
        variables=kept_variables(inputs),
        settings=(
            *_settings(link, options, inputs, flavor.filter_names, uses_gtid=uses_gtid),
            *_run_time_settings(inputs),
        ),
        is_last_known=inputs.target.server is None,
    )


def set_at_run_time(target: KnownInstance, *, of_replication: bool) -> tuple[RunTimeSetting, ...]:
    """Return the variables of the running target that a new server process would not have, of replication or all others."""
    config = target.facts.config if target.facts else None
    found = (target.server.set_at_run_time if target.server else None) or ()
    options = config.options if config else {}
    return tuple(
        one for one in found if is_of_replication(one.name) is of_replication and not outlasts_restart(one, options)
    )


def kept_variables(inputs: PlanInputs) -> dict[str, str]:
    """Return the variables of replication that the rebuild sets again."""
    return {one.name: one.after for one in _run_time_settings(inputs) if one.fate is Fate.KEPT}


def _run_time_settings(inputs: PlanInputs) -> Iterator[KeptSetting]:
    """Return what becomes of variables of replication. ``super_read_only = OFF`` is not set again: dbops loosens nothing."""
    target = inputs.target
    options = target.facts.config.options if target.facts and target.facts.config else {}
    for one in set_at_run_time(target, of_replication=True):
        before, after = one.value, after_restart(one, options) or phrase("its default")
        if one.name == "super_read_only" and not same_setting(before, "ON"):
            yield KeptSetting(one.name, before, after, Fate.CHANGED, STARTED)
        elif _lacks_plugin(inputs, one.name):
            yield KeptSetting(one.name, before, "", Fate.LOST, NO_PLUGIN)
        else:
            yield KeptSetting(
                one.name, before, before, Fate.KEPT, phrase("Set at run time. After a restart: {after}.", after=after)
            )


def _lacks_plugin(inputs: PlanInputs, variable: str) -> bool:
    """Return whether the variable is of a plugin that a table of the target's data loads, and the copy does not."""
    parts = variable.split("_")
    return variable.startswith("rpl_semi_sync_") and "_".join(parts[:4]) in (
        _installed(inputs.target) - _installed(inputs.source)
    )


def _installed(member: KnownInstance) -> set[str]:
    stored = member.server.stored if member.server else None
    return {plugin.name.lower() for plugin in (stored.plugins if stored else ()) if plugin.is_installed}


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
    yield from _followed(_address(link), inputs)
    if link.channel:
        yield KeptSetting(phrase("connection name"), link.channel, link.channel, Fate.KEPT)
    if link.source_user and inputs.replication_user:
        yield from _moved(
            phrase("account"), link.source_user, inputs.replication_user, phrase("The cluster's replication account.")
        )
    before, after = (_position(gtid) for gtid in (link.uses_gtid, uses_gtid))
    yield from _moved(phrase("position"), before, after, phrase("As the source of the copy does."))
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


def _followed(before: str, inputs: PlanInputs) -> Iterator[KeptSetting]:
    """Return the line of the server that the target follows."""
    between = intermediate_of(inputs)
    if between and (member := between.returns_to):
        yield from _moved(SOURCE_LINE, before, f"{member.address}:{member.port}", phrase("The same server."))
    elif inputs.primary:
        reason = phrase("The primary: {problem}.", problem=between.problem) if between else phrase("The primary.")
        yield from _moved(SOURCE_LINE, before, f"{inputs.primary.address}:{inputs.primary.port}", reason)


def _address(link: ReplicationFacts) -> str:
    return f"{link.source_host}:{link.source_port}"


def _moved(name: str, before: str, after: str, reason: str) -> Iterator[KeptSetting]:
    if before == after:
        yield KeptSetting(name, before, after, Fate.KEPT)
    else:
        yield KeptSetting(name, before, after, Fate.CHANGED, reason)


def _position(gtid: bool) -> str:
    return "GTID" if gtid else phrase("file and position")


def files_of(options: dict[str, str]) -> dict[str, str]:
    """Return the files that the connection's options name."""
    ends = ("SSL_CA", "SSL_CAPATH", "SSL_CERT", "SSL_KEY", "SSL_CRL", "SSL_CRLPATH", "PUBLIC_KEY_PATH")
    return {end: value for end in ends if (value := value_of(end, options))}
