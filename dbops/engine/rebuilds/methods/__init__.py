"""The ways to rebuild, one file each. A method is a list of steps; everything else they share."""

from dbops.engine.rebuilds.methods import archive, clone, dump, resume, rollback, xbstream
from dbops.engine.rebuilds.methods.base import Method

#: What a person may choose.
METHODS: dict[str, Method] = {
    "xbstream": xbstream.METHOD,
    "clone": clone.METHOD,
    "archive": archive.METHOD,
    "dump": dump.METHOD,
}
DEFAULT_METHOD = "xbstream"
#: What may follow a rebuild that did not succeed.
FOLLOW_UPS: dict[str, Method] = {"retry": resume.METHOD, "rollback": rollback.METHOD}


def method_named(name: str) -> Method:
    """Return a method or a follow-up. Raises ``KeyError``."""
    return METHODS.get(name) or FOLLOW_UPS[name]
