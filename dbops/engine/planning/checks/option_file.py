"""Check the target's own option file and directories."""

from collections.abc import Iterator

from dbops.engine.phrases import phrase
from dbops.engine.planning.checks.findings import ok, refusal, unknown, warning
from dbops.engine.planning.inputs import PlanInputs
from dbops.engine.rebuilds.plan import Finding

#: Options that place files outside the data directory.
OUTSIDE_OPTIONS = {
    "aria_log_dir_path",
    "innodb_data_home_dir",
    "innodb_log_group_home_dir",
    "innodb_undo_directory",
    "log_bin",
    "relay_log",
}


def target_identity_is_its_own(inputs: PlanInputs) -> Iterator[Finding]:
    """Require a unique server identity in the target's own option file: the copy brings the source's identity along.

    The file is read over SSH, the server over SQL. A difference between them can mean that the two addresses are of two machines.
    """
    code, title = "target.server_id", phrase("Server id of the target")
    facts = inputs.target.facts
    if facts is None or facts.host is None:
        yield unknown(code, title, phrase("{host} was not read", host=inputs.target.host))
        return
    config = facts.config
    if config is None:
        yield unknown(
            code,
            title,
            phrase(
                "{defaults_file} could not be read",
                defaults_file=inputs.target.defaults_file or phrase("the option files"),
            ),
        )
        return
    if config.server_id is None:
        yield refusal(
            code,
            title,
            phrase("No server_id in {defaults_file}.", defaults_file=inputs.target.defaults_file),
            phrase("Set server_id in the target's option file, unique in the cluster."),
        )
        return
    server = inputs.target.server
    if server and server.server_id != config.server_id:
        yield refusal(
            code,
            title,
            phrase(
                "{defaults_file} on {host} has {server_id}; the server at {address}:{port} has {server_server_id}.",
                defaults_file=inputs.target.defaults_file,
                host=inputs.target.host,
                server_id=config.server_id,
                address=inputs.target.address,
                port=inputs.target.port,
                server_server_id=server.server_id,
            ),
            phrase("Correct the address if that is another server; otherwise set its server_id in the option file."),
        )
        return
    if same := _with_server_id(inputs, config.server_id):
        yield refusal(
            code,
            title,
            phrase("server_id {server_id} is also that of {same}.", server_id=config.server_id, same=", ".join(same)),
            phrase("Change one of them."),
        )
    else:
        yield ok(code, title, phrase("server_id {server_id} is unique.", server_id=config.server_id))


def _with_server_id(inputs: PlanInputs, number: int) -> list[str]:
    """Return the other instances of the target's cluster with this server id."""
    return [
        member.name
        for member in inputs.members
        if member.name != inputs.target.name
        and member.cluster == inputs.target.cluster
        and member.server
        and member.server.server_id == number
    ]


def target_data_lies_where_the_inventory_says(inputs: PlanInputs) -> Iterator[Finding]:
    """Compare the data directories: a server that starts on another directory would be "verified" on its old data."""
    code, title = "target.datadir", phrase("Data directory of the target")
    facts = inputs.target.facts
    if facts is None or facts.datadir is None:
        return
    said = facts.server.datadir if facts.server else (facts.config.datadir if facts.config else None)
    if said and said.rstrip("/") not in (facts.datadir.path.rstrip("/"), inputs.target.datadir.rstrip("/")):
        yield refusal(
            code,
            title,
            phrase("{said} and {datadir}.", said=said, datadir=inputs.target.datadir),
            phrase("Correct the inventory or the option file."),
        )
    else:
        yield ok(code, title, facts.datadir.path)


def target_path_belongs_to_root(inputs: PlanInputs) -> Iterator[Finding]:
    """Refuse a path that a third account can exchange: root would stop and move what that account puts there."""
    code, title, facts = (
        "target.path",
        phrase("Path to the data directory"),
        inputs.target.facts,
    )
    if facts is None or facts.datadir is None:
        return
    if facts.datadir.exchangeable:
        yield refusal(
            code,
            title,
            phrase("Another account can exchange names in {exchangeable}.", exchangeable=facts.datadir.exchangeable),
            phrase(
                "Give this directory to root, or to the server's account, and remove the write permission of others."
            ),
        )
    else:
        yield ok(code, title, facts.datadir.path)


def target_keeps_nothing_outside(inputs: PlanInputs) -> Iterator[Finding]:
    """Refuse redo, undo or system files elsewhere: they would meet the new data, and old binary logs name invalid positions."""
    code, title = "target.external_paths", phrase("External paths of the target")
    facts = inputs.target.facts
    if facts is None or facts.config is None or facts.datadir is None:
        return
    inside = facts.datadir.path.rstrip("/") + "/"
    outside = [
        f"{name} = {value}"
        for name, value in sorted(facts.config.options.items())
        if name in OUTSIDE_OPTIONS and value.startswith("/") and not f"{value}/".startswith(inside)
    ]
    if outside:
        advice = phrase("Instances with separate data, undo, redo or binary log directories are not supported.")
        yield refusal(code, title, f"{'; '.join(outside)}.", advice)
    else:
        yield ok(code, title, phrase("All data is in {datadir}.", datadir=facts.datadir.path))


def target_stays_quiet_after_start(inputs: PlanInputs) -> Iterator[Finding]:
    """Check the automatic start of replication: MySQL copies its settings with the data and would start; MariaDB uses a file."""
    target, flavor = inputs.target, inputs.flavor
    config = target.facts.config if target.facts else None
    if config is None or flavor is None:
        return
    if flavor.name == "mysql" and not config.skip_replica_start:
        option = flavor.variable_name("skip_replica_start")
        yield refusal(
            "target.skip_replica_start",
            phrase("Replication at the server's start"),
            phrase("{defaults_file} does not set {option}.", defaults_file=target.defaults_file, option=option),
            phrase(
                "Set {option} = ON there: the copied settings would start replication from the source's source.",
                option=option,
            ),
        )
    if not config.read_only:
        yield warning(
            "target.read_only_config",
            phrase("read_only at the server's start"),
            phrase("{defaults_file} does not set read_only.", defaults_file=target.defaults_file),
            phrase("dbops sets it after the start. Set it in the file so that it survives a restart."),
        )


def nothing_is_run_at_the_start(inputs: PlanInputs) -> Iterator[Finding]:
    """Warn of an ``init_file``: the operator's start command runs it on the copy, before anything is verified."""
    code, title, facts = (
        "target.init_file",
        phrase("init_file of the target"),
        inputs.target.facts,
    )
    if facts is None or facts.config is None:
        return
    if (path := facts.config.options.get("init_file", "")) not in ("", "/dev/null"):
        yield warning(
            code,
            title,
            phrase(
                "init_file = {path} in {defaults_file}: it runs on the copy, before the copy is verified.",
                path=path,
                defaults_file=inputs.target.defaults_file,
            ),
            phrase("Check that it writes nothing to the binary log. Such writes end the rebuild."),
        )
    else:
        yield ok(code, title, phrase("None."))


CHECKS = (
    target_identity_is_its_own,
    target_data_lies_where_the_inventory_says,
    target_path_belongs_to_root,
    target_keeps_nothing_outside,
    target_stays_quiet_after_start,
    nothing_is_run_at_the_start,
)
