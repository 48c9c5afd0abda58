"""Pre-flight checks: each takes plan inputs and returns findings, in the order of the page.

To add a check, write a function in the module of its subject and add it to that module's ``CHECKS``. Describe its codes in
``docs/reference/checks.md`` (a test requires this). A method names its own checks (``engine.methods``).
"""

from dbops.engine.planning.checks import (
    capacity,
    doublewrite,
    inside,
    kind,
    layout,
    pair,
    source,
    storage,
    target,
    topology,
)
from dbops.engine.planning.inputs import PlanInputs
from dbops.engine.planning.method import Check
from dbops.engine.rebuilds.plan import Finding

#: The checks of a method that reads a running server with a backup tool: not those of a clone or of a finished backup.
OF_A_SERVER: tuple[Check, ...] = (
    *topology.CHECKS,
    *target.CHECKS,
    *kind.CHECKS,
    *pair.CHECKS,
    *source.CHECKS,
    *layout.CHECKS,
    *storage.CHECKS,
    *inside.CHECKS,
    *doublewrite.CHECKS,
    *capacity.CHECKS,
)


def run_checks(inputs: PlanInputs, checks: tuple[Check, ...]) -> tuple[Finding, ...]:
    """Return the findings of all checks of a method; no check is skipped because of another one."""
    return tuple(finding for check in checks for finding in check(inputs))
