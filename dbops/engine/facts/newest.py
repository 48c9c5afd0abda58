"""Which of two probes' facts count when their order is not the order in which they end."""

from dataclasses import replace
from datetime import UTC, datetime

from dbops.engine.facts.instance import STORED, InstanceFacts

_NEVER = datetime.min.replace(tzinfo=UTC)


def newest(one: InstanceFacts, other: InstanceFacts) -> InstanceFacts:
    """Return the facts of the probe that began later, with the facts of the data that were read last.

    A probe that does not read the data repeats what it found of it when it began: another one may have read it since.
    """
    early, late = sorted((one, other), key=lambda facts: facts.observed_at)
    if (early.stored_at or _NEVER) <= (late.stored_at or _NEVER):
        return late
    server, datadir = late.server, late.datadir
    if server and early.server and early.server.stored:
        server = replace(server, **{name: getattr(early.server, name) for name in STORED})
    if datadir and early.datadir and early.datadir.stored and early.datadir.identity == datadir.identity:
        datadir = replace(datadir, stored=early.datadir.stored)
    return replace(late, server=server, datadir=datadir, stored_at=early.stored_at)
