"""The methods, one file each: steps, checks, conflicts and other attributes.

To add a method, write its file and add it to ``METHODS``.
"""

from dbops.engine.methods import archive, clone, dump, resume, rollback, xbstream
from dbops.engine.planning.method import Method
from dbops.engine.schedule.conflicts import Activity, Conflict

#: The methods in the order of the page. The first is the default.
METHODS: dict[str, Method] = {
    method.name: method for method in (xbstream.METHOD, clone.METHOD, archive.METHOD, dump.METHOD)
}
DEFAULT_METHOD = next(iter(METHODS))
#: The follow-ups of an unsuccessful rebuild.
FOLLOW_UPS: dict[str, Method] = {method.name: method for method in (resume.METHOD, rollback.METHOD)}


def method_named(name: str) -> Method:
    """Return a method or a follow-up. Raises ``KeyError``."""
    return METHODS.get(name) or FOLLOW_UPS[name]


def shareable() -> frozenset[str]:
    """Return the methods that support a shared read."""
    return frozenset(name for name, method in METHODS.items() if method.can_share_read)


def conflict_table() -> dict[Activity, dict[str, Conflict]]:
    """Return the conflicts of each activity by method."""
    return {
        work: {name: method.conflicts[work] for name, method in METHODS.items() if work in method.conflicts}
        for work in Activity
    }


def blocked_by(work: Activity) -> frozenset[str]:
    """Return the methods that cannot start during an activity."""
    return frozenset(name for name, method in METHODS.items() if not method.may_start_alongside(work))
