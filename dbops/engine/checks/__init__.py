"""Pre-flight checks: pure functions over a ``Situation``, each giving findings. Order is the order of the page.

To add one: write a function in the module of its subject, name it in that module's ``CHECKS``, describe its codes in
``docs/checks.md`` (a test holds it).
"""

from dbops.engine.checks import capacity, pair, source, target, topology
from dbops.engine.plan import Finding
from dbops.engine.situation import Situation

CHECKS = (*topology.CHECKS, *target.CHECKS, *pair.CHECKS, *source.CHECKS, *capacity.CHECKS)


def run_checks(situation: Situation) -> tuple[Finding, ...]:
    """Return every finding, none left out because of another."""
    return tuple(finding for check in CHECKS for finding in check(situation))
