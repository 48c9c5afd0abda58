"""Check that the rebuild can restore how the target replicates."""

import posixpath
from collections.abc import Iterator

from dbops.engine.phrases import joined, phrase
from dbops.engine.planning.checks.findings import ok, refusal, warning
from dbops.engine.planning.inputs import PlanInputs, connections_of
from dbops.engine.planning.target_replication import UNSETTABLE, files_of, set_at_run_time
from dbops.engine.rebuilds.plan import Finding

#: Number of variables that a finding names.
MAX_SHOWN = 10


def target_has_one_source(inputs: PlanInputs) -> Iterator[Finding]:
    """Refuse several connections, whatever a person has accepted: the copy has the data of one, the others would be lost."""
    code, title = "target.sources", phrase("Replication connections of the target")
    links = connections_of(inputs.target)
    if links is None:
        yield warning(
            code,
            title,
            phrase("Unknown: dbops never read how the target replicates."),
            phrase(
                "After the rebuild it replicates from the primary with ordinary settings. Check TLS, delay and "
                "filters then."
            ),
        )
    elif len(links) > 1:
        names = joined(
            phrase(
                "{channel} from {source_host}:{source_port}",
                channel=f"{link.channel!r}",
                source_host=link.source_host,
                source_port=link.source_port,
            )
            for link in links
        )
        yield refusal(
            code,
            title,
            phrase("{number} connections: {names}.", number=len(links), names=names),
            phrase(
                "A rebuild would remove the data of the others. Remove the connections that are not needed, or "
                "rebuild by hand."
            ),
        )
    else:
        yield ok(code, title, phrase("One connection.") if links else phrase("It does not replicate."))


def connection_files_remain(inputs: PlanInputs) -> Iterator[Finding]:
    """Refuse keys and certificates inside the data directory: they go with it, and replication could not connect."""
    code, title = "target.replication_files", phrase("Files of the replication connection")
    links, facts = connections_of(inputs.target), inputs.target.facts
    if not links or len(links) > 1 or facts is None:
        return
    files = files_of(links[0].options)
    if inputs.target.replication_tls_ca:
        files["SSL_CA"] = inputs.target.replication_tls_ca
    datadir = (facts.datadir.path if facts.datadir else inputs.target.datadir).rstrip("/")
    places = {datadir, inputs.target.datadir.rstrip("/")}
    lost = {
        name: path
        for name, path in files.items()
        if not path.startswith("/") or any(posixpath.normpath(path).startswith(f"{place}/") for place in places)
    }
    if lost:
        shown = ", ".join(f"{name} = {path}" for name, path in lost.items())
        yield refusal(
            code,
            title,
            phrase("In the data directory: {shown}.", shown=shown),
            phrase("Move them to another directory, name that in the connection, and plan again."),
        )
    else:
        yield ok(code, title, phrase("None is in the data directory."))


def filters_hold_again(inputs: PlanInputs) -> Iterator[Finding]:
    """Warn of data that a filter kept away from the target: the copy brings it, as it is at the source."""
    code, title = "target.filters", phrase("Replication filters of the target")
    links = connections_of(inputs.target)
    if not links or len(links) > 1:
        return
    if found := links[0].left_out:
        shown = ", ".join(f"{name} = {value}" for name, value in found.items())
        flavor = inputs.target.flavor
        lost = [name for name in links[0].filters if flavor and name not in flavor.filter_names]
        restored = (
            phrase("All but {lost} are restored: {unsettable}", lost=", ".join(lost), unsettable=UNSETTABLE)
            if lost
            else phrase("The filters are restored.")
        )
        yield warning(
            code,
            title,
            f"{shown}.",
            phrase(
                "{restored} The copy also has the data that they kept away, as it is at the source.", restored=restored
            ),
        )
    else:
        yield ok(code, title, phrase("None."))


def others_are_in_the_option_file(inputs: PlanInputs) -> Iterator[Finding]:
    """Warn of variables that were set at run time and are not of replication: the new server process does not have them."""
    code, title, server = (
        "target.run_time",
        phrase("Run-time settings of the target"),
        inputs.target.server,
    )
    if server is None or server.set_at_run_time is None or inputs.unrestored:  # an incomplete copy has those of dbops
        return
    found = {one.name: one.value for one in set_at_run_time(inputs.target, of_replication=False)}
    if not server.replication:
        found |= {one.name: one.value for one in set_at_run_time(inputs.target, of_replication=True)}
    if found:
        shown = ", ".join(f"{name} = {value}" for name, value in sorted(found.items())[:MAX_SHOWN])
        if len(found) > MAX_SHOWN:
            shown = phrase("{shown} and {rest} more", shown=shown, rest=len(found) - MAX_SHOWN)
        yield warning(
            code,
            title,
            phrase("Set at run time only: {shown}.", shown=shown),
            phrase("The rebuild starts a new server process without them. Add them to the option file to keep them."),
        )
    else:
        yield ok(
            code,
            title,
            phrase("Those of replication are restored.") if server.replication else phrase("None was set at run time."),
        )


CHECKS = (target_has_one_source, connection_files_remain, filters_hold_again, others_are_in_the_option_file)
