"""The ways to rebuild, one file each. A method is one object: its steps, its checks, its conflicts and what else differs.

To add one: write its file, and name it in ``METHODS``.
"""

from dbops.engine.methods import archive, clone, dump, resume, rollback, xbstream
from dbops.engine.planning.method import Method
from dbops.engine.schedule.conflicts import Activity, Conflict

#: What a person may choose, in the order of the page. The first is the default.
METHODS: dict[str, Method] = {
    method.name: method for method in (xbstream.METHOD, clone.METHOD, archive.METHOD, dump.METHOD)
}
DEFAULT_METHOD = next(iter(METHODS))
#: What may follow a rebuild that did not succeed.
FOLLOW_UPS: dict[str, Method] = {method.name: method for method in (resume.METHOD, rollback.METHOD)}


def method_named(name: str) -> Method:
    """Return a method or a follow-up. Raises ``KeyError``."""
    return METHODS.get(name) or FOLLOW_UPS[name]


def shareable() -> frozenset[str]:
    """Return the methods of which one read of a source can serve several rebuilds."""
    return frozenset(name for name, method in METHODS.items() if method.can_share_read)


def conflict_table() -> dict[Activity, dict[str, Conflict]]:
    """Return what each activity means for each method that a person may choose."""
    return {
        work: {name: method.conflicts[work] for name, method in METHODS.items() if work in method.conflicts}
        for work in Activity
    }


def blocked_by(work: Activity) -> frozenset[str]:
    """Return by which methods no rebuild starts while this goes on."""
    return frozenset(name for name, method in METHODS.items() if not method.may_start_beside(work))
