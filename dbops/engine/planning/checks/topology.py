"""Is the cluster's topology the one that the inventory describes?"""

from collections.abc import Iterator

from dbops.engine.planning.checks.findings import ok, refusal
from dbops.engine.planning.inputs import PlanInputs
from dbops.engine.rebuilds.plan import Finding


def topology_is_as_stored(inputs: PlanInputs) -> Iterator[Finding]:
    """Roles decide who is read, who is replaced and from whom the replica reads afterwards: wrong roles, wrong machine."""
    code, title = "topology.differs", "The topology is the one of the inventory"
    open_ones = [item for item in inputs.differences if item.matters]
    if open_ones:
        yield refusal(
            code,
            title,
            " ".join(item.text for item in open_ones),
            "Accept what has changed on the cluster's topology page, or mend it and wait for the next probe.",
        )
    else:
        yield ok(code, title, "No difference that matters is open.")


CHECKS = (topology_is_as_stored,)
