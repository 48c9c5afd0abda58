"""Pre-flight checks: pure functions over a ``PlanInputs``, each giving findings. Order is the order of the page.

To add one: write a function in the module of its subject, name it in that module's ``CHECKS``, describe its codes in
``docs/reference/checks.md`` (a test holds it). A method names its own (``engine.methods``).
"""

from dbops.engine.planning.checks import capacity, pair, source, target, topology
from dbops.engine.planning.inputs import PlanInputs
from dbops.engine.planning.method import Check
from dbops.engine.rebuilds.plan import Finding

#: Of a method that reads a running server with a backup tool: all but those of a clone and of a finished backup.
OF_A_SERVER: tuple[Check, ...] = (*topology.CHECKS, *target.CHECKS, *pair.CHECKS, *source.CHECKS, *capacity.CHECKS)


def run_checks(inputs: PlanInputs, checks: tuple[Check, ...]) -> tuple[Finding, ...]:
    """Return every finding of a method's checks, none left out because of another."""
    return tuple(finding for check in checks for finding in check(inputs))
