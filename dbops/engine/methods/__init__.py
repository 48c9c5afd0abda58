"""The ways to rebuild, one file each. A method is a list of steps; everything else they share."""

from dbops.engine.methods import xbstream
from dbops.engine.methods.base import Method

METHODS: dict[str, Method] = {"xbstream": xbstream.METHOD}
