"""Check what people enter of another system: an audit sink, an inventory source or a notification channel."""

import ssl
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from django.core.exceptions import ValidationError

from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase, said

from .audit_sinks import AuditSink
from .inventory_sources import InventorySource
from .notifications import NotificationChannel
from .secret import check_entered

System = AuditSink | InventorySource | NotificationChannel


@contextmanager
def refusing(invalid: Callable[[str], Refused]) -> Iterator[None]:
    """Refuse a value that a check calls wrong by ``ValidationError`` or ``ValueError``. ``invalid`` makes the refusal from the cause."""
    try:
        yield
    except ValidationError as error:
        found = " ".join(f"{field}: {' '.join(texts)}" for field, texts in error.message_dict.items())
        raise invalid(found) from error
    except ValueError as error:
        raise invalid(said(error)) from error


def check_values(system: System, entered: Collection[str]) -> None:
    """Check the columns ``entered``, the CA and the secrets of a row. Vault is not asked.

    Raises:
        ValidationError, ValueError: one is invalid; see ``refusing``.
    """
    system.clean_fields(exclude={field.name for field in system._meta.fields} - set(entered))
    if system.ca and not system.ca.isascii():
        raise ValueError(phrase("the CA has a character outside ASCII"))
    if system.ca:
        try:
            ssl.create_default_context(cadata=system.ca)
        except ssl.SSLError as error:
            raise ValueError(phrase("the CA is no certificate as PEM")) from error
    check_entered(system)
