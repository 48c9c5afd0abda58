"""Check that the source has all data, and that it is where a copy puts it."""

from collections.abc import Iterator

from dbops.engine.facts.instance import ReplicationFacts
from dbops.engine.facts.stored_data import FileLink, StoredData
from dbops.engine.phrases import phrase
from dbops.engine.planning.checks.findings import ok, refusal, unknown, warning
from dbops.engine.planning.inputs import KnownInstance, PlanInputs, connections_of
from dbops.engine.planning.upstream import intermediate_of
from dbops.engine.rebuilds.plan import CHAINED, Finding

MAX_SHOWN = 5


def source_replicates_everything(inputs: PlanInputs) -> Iterator[Finding]:
    """Refuse a source with replication filters: it lacks data by design, and the copy would too."""
    code, title, server = "source.filters", phrase("Replication filters of the source"), inputs.source.server
    if server is None:
        return
    found = filters_of(server.replication)
    if not found:
        yield ok(code, title, phrase("No replication filters."))
        return
    seen = phrase(
        "Replication filters on {source}: {found}. It lacks the data that they leave out.",
        source=inputs.source.name,
        found=as_text(found),
    )
    target = inputs.target.server
    if target and filters_of(target.replication) == found:
        advice = phrase(
            "The target has the same filters now. Check that its option file sets them: the copy lacks the same data."
        )
        yield warning(code, title, seen, advice)
    else:
        yield refusal(code, title, seen, phrase("Choose a source without filters, or rebuild the source first."))


def source_logs_everything(inputs: PlanInputs) -> Iterator[Finding]:
    """Refuse a source that leaves databases out of its binary log: the copy catches up from there."""
    code, title, server = (
        "source.binlog_filters",
        phrase("Binary log filters of the source"),
        inputs.source.server,
    )
    if server is None or server.stored is None:
        return
    if found := server.stored.binlog_filters:
        seen = phrase(
            "{items} on {source}.",
            items="; ".join((f"{name} = {value}" for name, value in sorted(found.items()))),
            source=inputs.source.name,
        )
        yield refusal(code, title, seen, phrase("Remove the option from the source, or choose another source."))
    else:
        yield ok(code, title, phrase("No binary log filters."))


def filters_of(links: tuple[ReplicationFacts, ...]) -> dict[str, dict[str, str]]:
    """Return the filters of each connection that has any."""
    return {link.channel: link.left_out for link in links if link.left_out}


def as_text(found: dict[str, dict[str, str]]) -> str:
    return "; ".join(
        f"{name} = {value}" + (f" (channel {channel})" if channel else "")
        for channel, filters in found.items()
        for name, value in sorted(filters.items())
    )


def source_files_lie_inside(inputs: PlanInputs) -> Iterator[Finding]:
    """Refuse table files outside the data directory: they are copied to their old path, or their link is not copied."""
    code, title = "source.outside_files", phrase("Table files of the source")
    stored, files = stored_of(inputs.source), links_of(inputs.source)
    if inputs.source.server is None and files is None:
        return
    if (inputs.source.server is not None and stored is None) or files is None:
        yield unknown(code, title, phrase("where the files of tables are"))
        return
    found = [*(stored.outside_files if stored else ()), *(_shown(link) for link in files if link.is_data)]
    if inputs.flavor and inputs.flavor.name == "mysql":
        found += [_shown(link) for link in files if link.is_schema]
    if found:
        yield refusal(
            code,
            title,
            phrase("Outside: {some}.", some=_some(found)),
            phrase(
                "Move the tables into the data directory: ALTER TABLE without DATA DIRECTORY (or dump and load "
                "them), DROP TABLESPACE for general tablespaces. Then rebuild."
            ),
        )
    else:
        yield ok(code, title, phrase("No tablespace, .isl file or linked table is outside."))


def schemas_are_directories(inputs: PlanInputs) -> Iterator[Finding]:
    """Say what happens to databases that are symbolic links: the copy has directories in their place."""
    for code, member in (("source.schema_links", inputs.source), ("target.schema_links", inputs.target)):
        title = phrase("Symbolic links of {member}", member=member.name)
        files = links_of(member)
        if files is None:
            continue
        found = [_shown(link) for link in files if link.is_schema]
        if not found:
            yield ok(code, title, phrase("No links."))
        elif member is inputs.source:
            advice = phrase("Make room on the target for them: the size of the copy does not include them.")
            yield warning(
                code,
                title,
                phrase("{some}. The copy has directories in the data directory instead.", some=_some(found)),
                advice,
            )
        else:
            advice = phrase(
                "Move the database there again after the rebuild, and remove the old files when you no longer need "
                "them."
            )
            seen = phrase(
                "{some}. The new data has directories in the data directory; the old files stay where they are.",
                some=_some(found),
            )
            yield warning(code, title, seen, advice)


def target_keeps_its_source(inputs: PlanInputs) -> Iterator[Finding]:
    """Say where a target goes that follows an intermediate replica: back to it, or to the primary."""
    code, title = CHAINED, phrase("Replication source of the target")
    primary = inputs.primary
    if primary is None or not (connections_of(inputs.target) or inputs.unrestored):
        return
    between = intermediate_of(inputs)
    if between is None:
        yield ok(code, title, primary.name)
    elif between.returns_to:
        yield ok(
            code,
            title,
            phrase("{between}, an intermediate replica, if it then has all that the target has.", between=between.name),
        )
    else:
        yield warning(
            code,
            title,
            phrase(
                "It follows {between}. After the rebuild it follows {primary}: {problem}.",
                between=between.name,
                primary=primary.name,
                problem=between.problem,
            ),
            phrase("Attach it to {between} again after the rebuild, if it should stay there.", between=between.name),
        )


def target_leaves_nothing_outside(inputs: PlanInputs) -> Iterator[Finding]:
    """Warn of old table files outside the target's data directory: dbops neither moves nor removes them."""
    code, title = "target.outside_files", phrase("Table files of the target")
    stored, files = stored_of(inputs.target), links_of(inputs.target)
    if stored is None and files is None:
        return
    found = [*(stored.outside_files if stored else ()), *(_shown(link) for link in files or () if link.is_data)]
    if found:
        advice = phrase("Remove them yourself after the rebuild. Until then, a rollback needs them.")
        yield warning(code, title, phrase("{some}. These old files stay where they are.", some=_some(found)), advice)
    else:
        yield ok(code, title, phrase("None is outside."))


def stored_of(member: KnownInstance) -> StoredData | None:
    return member.server.stored if member.server else None


def links_of(member: KnownInstance) -> tuple[FileLink, ...] | None:
    files = member.facts.datadir.stored if member.facts and member.facts.datadir else None
    return files.links if files else None


def _shown(link: FileLink) -> str:
    return f"{link.path} -> {link.target}" if link.target else link.path


def _some(found: list[str]) -> str:
    rest = len(found) - MAX_SHOWN
    shown = ", ".join(found[:MAX_SHOWN])
    return phrase("{shown} and {rest} more", shown=shown, rest=rest) if rest > 0 else shown


#: For a copy of the running source's files.
CHECKS = (
    source_replicates_everything,
    source_logs_everything,
    source_files_lie_inside,
    schemas_are_directories,
    target_leaves_nothing_outside,
    target_keeps_its_source,
)
#: For a finished physical backup, which catches up from the primary.
OF_A_BACKUP = (
    source_replicates_everything,
    source_files_lie_inside,
    schemas_are_directories,
    target_leaves_nothing_outside,
    target_keeps_its_source,
)
#: For a dump, which has no files.
OF_A_DUMP = (source_replicates_everything, target_leaves_nothing_outside, target_keeps_its_source)
