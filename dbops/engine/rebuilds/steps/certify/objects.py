"""Compare the objects of both servers: what is missing, extra or changed, and how."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.flavors import parse_version
from dbops.engine.phrases import phrase
from dbops.engine.ports import Database
from dbops.engine.rebuilds.certificate.columns import COLUMN, changes, prepare
from dbops.engine.rebuilds.certificate.inventory import (
    Scope,
    counted,
    differences,
    is_account,
    read_inventory,
)
from dbops.engine.rebuilds.certificate.openable import Table
from dbops.engine.rebuilds.steps.certify.looks import LISTED, listed, settle
from dbops.engine.rebuilds.steps.certify.reference import ReferenceServer, connect_to_source, filters_of, version_of
from dbops.engine.rebuilds.steps.run import Run, StepOutcome

#: Tables whose columns are read to tell the difference, and differences of each in a sentence.
EXPLAINED, CHANGES = 10, 5
#: How long the source's indexes are compared, where it is not the compared server.
SOURCE_SECONDS = 8.0


def inventory(run: Run, target: Database, reference: ReferenceServer, record: dict[str, Any]) -> StepOutcome | None:
    """Compare the objects of both servers.

    Raises:
        RemoteFailure: ``certificate.differs``.
    """
    scope = _scope(run, target, reference)
    counts: dict[str, int] = {}
    tables: dict[str, Table] = {}
    #: those that differ in columns or indexes alone
    shaped: set[str] = set()

    def look() -> dict[str, str]:
        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(read_inventory, reference.database, reference.flavor, scope)
            right = read_inventory(target, run.flavor, scope)
            left = other.result()
        record["unchecked"] |= left.hidden | right.hidden
        counts.clear()
        counts.update({**counted(left.objects), **left.parts})
        tables.update(left.tables)
        shaped.clear()
        shaped.update(name for name in left.tables if left.objects[name] == right.objects.get(name))
        return differences(left, right)

    found = settle(run, "certify.inventory", target, reference, look, record)
    if isinstance(found, StepOutcome):
        return found
    record["objects"] = counts or record.get("objects", {})
    changed = {name: tables[name] for name in sorted(found) if found[name] == "changed" and name in tables}
    found |= _how(run, target, reference, scope, changed)
    suspects = {name: table for name, table in changed.items() if name in shaped}
    left = _accept(run, target, reference, record, found, _indexed_as_source(run, target, reference, scope, suspects))
    if left:
        raise RemoteFailure(
            "certificate.differs",
            phrase(
                "Comparing the objects of {target} with those of {reference}",
                target=run.plan.target.name,
                reference=reference.party.name,
            ),
            cause=listed([f"{name} ({how})" for name, how in left.items()]),
        )
    if counts:
        run.journal.say(
            phrase(
                "{count} objects are the same as on {reference}.",
                count=sum(counts.values()),
                reference=reference.party.name,
            )
        )
    return None


def _scope(run: Run, target: Database, reference: ReferenceServer) -> Scope:
    left, right = (parse_version(version_of(database)) for database in (target, reference.database))
    return Scope(
        definitions=left[:2] == right[:2],
        row_format=not run.plan.loads_sql,
        same_version=left == right,
    )


def _how(
    run: Run, target: Database, reference: ReferenceServer, scope: Scope, changed: dict[str, Table]
) -> dict[str, str]:
    """Return how columns and indexes of the first changed tables differ."""
    found = {}
    for name, table in list(changed.items())[:EXPLAINED]:
        try:
            how = changes(reference.database, target, run.flavor, table, exact=scope.is_exact)
        except Unreachable:
            raise
        except RemoteFailure:
            continue  # the table differs all the same
        more = [f"{len(how) - CHANGES} more"] if len(how) > CHANGES else []
        if how:
            found[name] = f"changed: {', '.join([*how[:CHANGES], *more])}"
    return found


def _indexed_as_source(
    run: Run, target: Database, reference: ReferenceServer, scope: Scope, suspects: Mapping[str, Table]
) -> set[str]:
    """Return the tables that differ from the primary's in indexes alone, and have the columns and indexes of the source.

    A replica can have indexes of its own, for reports. One that does not answer in time explains nothing.
    """
    if not suspects or reference.is_copied or not reference.is_primary:
        return set()
    try:
        source = connect_to_source(run, SOURCE_SECONDS)
    except RemoteFailure:
        return set()
    with closing(source):
        prepare(source, run.flavor)
        exact = scope.is_exact or version_of(source) == version_of(target)
        found = set()
        for name, table in suspects.items():
            try:
                columns = changes(reference.database, target, run.flavor, table, exact=scope.is_exact, kinds=(COLUMN,))
                if not columns and not changes(source, target, run.flavor, table, exact=exact):
                    found.add(name)
            except Unreachable:
                raise
            except RemoteFailure:
                continue  # the difference counts
        return found


def _accept(
    run: Run,
    target: Database,
    reference: ReferenceServer,
    record: dict[str, Any],
    found: dict[str, str],
    indexed_as_source: set[str],
) -> dict[str, str]:
    """Return the differences that count.

    Accounts and indexes of another server than the copied one, and filtered data, can differ by design.
    """
    left = dict(sorted(found.items()))
    reasons: dict[str, str] = {}
    if not reference.is_copied:
        why = f"{reference.party.name} can have accounts of its own"
        reasons |= dict.fromkeys((name for name in left if is_account(name)), why)
    reasons |= dict.fromkeys(indexed_as_source, f"{run.plan.source.name} has the same indexes")
    if filters := filters_of(run, target, reference) if left else "":
        reasons |= {name: reasons.get(name, filters) for name in left}
    accepted = [{"name": name, "how": left[name], "reason": why} for name, why in reasons.items()]
    record["accepted"] = accepted[:LISTED]
    left = {name: how for name, how in left.items() if name not in reasons}
    record["differences"] = [f"{name} ({how})" for name, how in left.items()][:LISTED]
    return left
