"""Read inventory sources. Nothing in the inventory changes."""

import logging

from django.conf import settings

from dbops.drivers.inventory_sources import OPERATION, SourceLogin, fetch
from dbops.engine.errors import DbopsError, RemoteFailure, Unreachable
from dbops.engine.inventory.address import read_address
from dbops.engine.inventory.listing import BadListing, Listing
from dbops.engine.inventory.readers import SourceKind, read_document
from dbops.engine.phrases import phrase, said
from dbops.lifecycle import inventory_sources
from dbops.models import InventorySource

log = logging.getLogger(__name__)


def read_source(source_id: int) -> bool:
    """Read one due source. Return whether it was due: a second message does nothing."""
    source = inventory_sources.claim(source_id)
    if source is None:
        return False
    try:
        inventory_sources.keep(source, _read(source))
    except DbopsError as error:
        log.warning("inventory source %s: %s", source.name, error)
        inventory_sources.mark_failed(source, error)
    except Exception as error:  # also the end of the task's time: looking up a name can take long
        cause = phrase("the reading was ended ({name})", name=type(error).__name__)
        inventory_sources.mark_failed(source, Unreachable("inventory_source.unreachable", OPERATION, cause=cause))
        raise
    return True


def _read(source: InventorySource) -> Listing:
    kind = SourceKind(source.kind)
    login = SourceLogin(user=source.user, secret=source.secret, ca=source.ca)
    text = fetch(kind, read_address(source.address), login, folder=settings.INVENTORY_DIR)
    try:
        return read_document(kind, text)
    except BadListing as error:
        raise RemoteFailure("inventory_source.unreadable", OPERATION, cause=said(error)) from error
