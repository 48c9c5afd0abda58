"""Compare the source's replication before and after the run: the two must be equal."""

from contextlib import closing
from typing import Any

from dbops.engine.phrases import phrase
from dbops.engine.rebuilds.shared_read import BEGUN
from dbops.engine.rebuilds.steps.replicate.replication import read_link
from dbops.engine.rebuilds.steps.run import Run
from dbops.engine.states import Level

#: A resumed connection takes some seconds to return; after this time a difference is logged.
SETTLE_SECONDS = 30.0


def remember_replication(run: Run) -> None:
    """Read the source's replication before any change there; a second call keeps the first result.

    With a finished backup nothing changes on its server, which may be down. In a shared read, the leader remembers it.
    Raises as ``Database.query``.
    """
    is_ours = run.plan.archive is None and run.shared_read_members.leader() is None
    if "source_found" not in run.checkpoint and is_ours:
        run.checkpoint["source_found"] = read_replication(run)


def read_replication(run: Run) -> dict[str, Any]:
    """Return where the source replicates from and whether its threads run, empty if it does not replicate."""
    with closing(run.source.connect(10.0)) as database:
        link = read_link(database, run.flavor)
    if link is None:
        return {}
    return {"from": f"{link.source_host}:{link.source_port}", "io": link.io_running, "sql": link.sql_running}


def compare_replication(run: Run) -> bool:
    """Log if the source does not replicate as before. Return whether this is done, or has to be retried.

    Raises as ``Database.query``.
    """
    if run.checkpoint.get(BEGUN) and not run.checkpoint.get("shared_read.over"):
        return False  # it is still read for others, and may be paused for that
    found = run.checkpoint.get("source_found")
    if found is None or "source_differs" in run.checkpoint:
        return True
    now = read_replication(run)
    since = run.checkpoint.setdefault("source_compared_at", run.clock.now())
    is_same = now == found or (bool(now) and now == {"from": found.get("from"), "io": "Yes", "sql": "Yes"})
    if not is_same and run.clock.now() - since < SETTLE_SECONDS:
        return False
    run.checkpoint["source_differs"] = ""
    if not is_same:
        run.checkpoint["source_differs"] = phrase(
            "{source} does not replicate as before: {before} before, {now} now.",
            source=run.source.party.name,
            before=_as_text(found),
            now=_as_text(now),
        )
        run.journal.say(run.checkpoint["source_differs"], level=Level.ERROR, host=run.source.party.host)
    return True


def _as_text(link: dict[str, Any]) -> str:
    if not link:
        return phrase("no replication")
    return phrase("from {source}, receiver {io}, applier {sql}", source=link["from"], io=link["io"], sql=link["sql"])
