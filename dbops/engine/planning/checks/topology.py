"""Check the topology against the inventory."""

from collections.abc import Iterator

from dbops.engine.phrases import phrase
from dbops.engine.planning.checks.findings import ok, refusal
from dbops.engine.planning.inputs import PlanInputs
from dbops.engine.rebuilds.plan import Finding


def topology_is_as_stored(inputs: PlanInputs) -> Iterator[Finding]:
    """Refuse a topology difference: wrong roles lead to the wrong machine being read, replaced or replicated from."""
    code, title = "topology.differs", phrase("Topology differences")
    open_ones = [item for item in inputs.differences if item.matters]
    if open_ones:
        yield refusal(
            code,
            title,
            " ".join(item.text for item in open_ones),
            phrase("Accept the change on the cluster's topology page, or fix it and wait for the next probe."),
        )
    else:
        yield ok(code, title, phrase("No open differences."))


CHECKS = (topology_is_as_stored,)
