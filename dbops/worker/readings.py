"""What workers that take requested readings share."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dbops.engine.errors import DbopsError, RemoteFailure
from dbops.engine.flavors import Flavor, flavor_for
from dbops.engine.phrases import phrase
from dbops.engine.ports import Database
from dbops.lifecycle.readings import end_reading
from dbops.loaders.accounts import secrets_of
from dbops.models.readings import FAILED, UNKNOWN, RequestedReading
from dbops.security.redaction import redact_record


@contextmanager
def ended_on_failure(row: RequestedReading, unknown: Callable[[str], RemoteFailure], **values: Any) -> Iterator[None]:
    """End a reading that fails in the block. ``unknown`` makes the error from the cause if its worker is ended."""
    try:
        yield
    except DbopsError as error:
        record = redact_record(error.as_record(), secrets_of(row.instance.cluster))
        end_reading(row, FAILED, error=record, **values)
    except BaseException as error:
        cause = phrase("its worker was ended ({name})", name=type(error).__name__)
        end_reading(row, UNKNOWN, error=unknown(cause).as_record(), **values)
        raise


def flavor_of(database: Database) -> Flavor:
    """Return the flavor of the server that a connection leads to."""
    found = database.query("SELECT VERSION() AS version, @@version_comment AS comment")[0]
    return flavor_for(str(found["version"]), str(found["comment"]))
