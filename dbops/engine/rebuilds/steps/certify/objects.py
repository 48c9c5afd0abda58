"""Compare the objects of both servers: what is missing, extra or changed, and how."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.flavors import parse_version
from dbops.engine.ports import Database
from dbops.engine.rebuilds.certificate.columns import changes
from dbops.engine.rebuilds.certificate.inventory import (
    Scope,
    counted,
    differences,
    is_account,
    read_inventory,
)
from dbops.engine.rebuilds.certificate.openable import Table
from dbops.engine.rebuilds.steps.certify.looks import LISTED, listed, settle
from dbops.engine.rebuilds.steps.certify.reference import Reference, filters_of, version_of
from dbops.engine.rebuilds.steps.run import Run, StepOutcome

#: Tables whose columns are read to tell the difference, and differences of each in a sentence.
EXPLAINED, CHANGES = 10, 5


def inventory(run: Run, target: Database, reference: Reference, record: dict[str, Any]) -> StepOutcome | None:
    """Compare the objects of both servers.

    Raises:
        RemoteFailure: ``certificate.differs``.
    """
    scope = _scope(run, target, reference)
    counts: dict[str, int] = {}
    tables: dict[str, Table] = {}

    def look() -> dict[str, str]:
        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(read_inventory, reference.database, reference.flavor, scope)
            right = read_inventory(target, run.flavor, scope)
            left = other.result()
        record["unchecked"] |= left.hidden | right.hidden
        counts.clear()
        counts.update({**counted(left.objects), **left.parts})
        tables.update(left.tables)
        return differences(left, right)

    found = settle(run, "certify.inventory", target, reference, look, record)
    if isinstance(found, StepOutcome):
        return found
    record["objects"] = counts or record.get("objects", {})
    changed = {name: tables[name] for name in sorted(found) if found[name] == "changed" and name in tables}
    found |= _how(run, target, reference, scope, changed)
    left = _accept(run, target, reference, record, found)
    if left:
        raise RemoteFailure(
            "certificate.differs",
            f"Comparing the objects of {run.plan.target.name} with those of {reference.party.name}",
            cause=listed([f"{name} ({how})" for name, how in left.items()]),
        )
    if counts:
        run.journal.say(f"{sum(counts.values())} objects are the same as on {reference.party.name}.")
    return None


def _scope(run: Run, target: Database, reference: Reference) -> Scope:
    left, right = (parse_version(version_of(database)) for database in (target, reference.database))
    return Scope(
        definitions=left[:2] == right[:2],
        row_format=(run.plan.copied_by or run.plan.method) != "dump",
        same_version=left == right,
    )


def _how(run: Run, target: Database, reference: Reference, scope: Scope, changed: dict[str, Table]) -> dict[str, str]:
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


def _accept(
    run: Run, target: Database, reference: Reference, record: dict[str, Any], found: dict[str, str]
) -> dict[str, str]:
    """Return the differences that count. Accounts of another server than the copied one, and filtered data, can differ by design."""
    left = dict(sorted(found.items()))
    reasons: dict[str, str] = {}
    if not reference.is_copied:
        why = f"{reference.party.name} can have accounts of its own"
        reasons |= dict.fromkeys((name for name in left if is_account(name)), why)
    if filters := filters_of(run, target, reference) if left else "":
        reasons |= {name: reasons.get(name, filters) for name in left}
    accepted = [{"name": name, "how": left[name], "reason": why} for name, why in reasons.items()]
    record["accepted"] = accepted[:LISTED]
    left = {name: how for name, how in left.items() if name not in reasons}
    record["differences"] = [f"{name} ({how})" for name, how in left.items()][:LISTED]
    return left
