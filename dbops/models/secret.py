"""A text column that is encrypted at rest."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.db import models
from django.db.models.query_utils import DeferredAttribute

from dbops.engine.errors import Refused


@lru_cache
def _cipher(keys: tuple[str, ...]) -> MultiFernet:
    return MultiFernet([Fernet(key) for key in keys])


def cipher() -> MultiFernet:
    """Return the cipher with the current keys: the first encrypts, all decrypt."""
    return _cipher(tuple(settings.ENCRYPTION_KEYS))


@dataclass(frozen=True, slots=True)
class _Sealed:
    """A stored token, decrypted only on access, because most readers of a row do not need it."""

    token: str = field(repr=False)


class _Opened(DeferredAttribute):
    """Descriptor that decrypts on the first read of the attribute."""

    def __get__(self, row: models.Model | None, owner: Any = None) -> Any:
        value = super().__get__(row, owner)
        if row is not None and isinstance(value, _Sealed):
            value = row.__dict__[self.field.attname] = _open(row, self.field, value)
        return value

    def __set__(self, row: models.Model, value: Any) -> None:
        row.__dict__[self.field.attname] = value


def _open(row: models.Model, column: "models.Field[Any, Any]", sealed: _Sealed) -> str:
    try:
        return cipher().decrypt(sealed.token.encode()).decode()
    except InvalidToken as error:
        raise Refused(
            "secret.lost",
            f"Reading the {column.verbose_name} of {getattr(row, 'name', row)}",
            cause="the current keys cannot decrypt it",
        ) from error


class SecretTextField(models.TextField):
    """Text stored as a Fernet token. It is not searchable, and reading it with a wrong key raises ``Refused``.

    Reading, listing and saving a row does not decrypt its secrets, so a lost key affects only users of the secret.
    """

    descriptor_class = _Opened

    def from_db_value(self, value: str | None, *_: Any) -> "_Sealed | str | None":
        return _Sealed(value) if value else value

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:  # noqa: ARG002 - Django's signature
        return model_instance.__dict__.get(self.attname, "")

    def get_prep_value(self, value: Any) -> Any:
        if isinstance(value, _Sealed):
            return value.token
        return cipher().encrypt(str(value).encode()).decode() if value else value


def is_set(row: models.Model, name: str) -> bool:
    """Whether a row has a value in a secret column, regardless of the key."""
    if name not in row.get_deferred_fields():
        return bool(row.__dict__[name])
    return type(row)._default_manager.filter(pk=row.pk).exclude(**{name: ""}).exists()


def holds(row: models.Model, name: str, value: str | None) -> bool:
    """Whether a secret column has this value. An undecryptable value never equals, so it is set again."""
    try:
        return bool(getattr(row, name) == value)
    except Refused:
        return False


def key_number(token: str) -> int | None:
    """Return the index of the key that decrypts a token (0 encrypts now), or ``None``."""
    for number, key in enumerate(settings.ENCRYPTION_KEYS):
        try:
            _cipher((key,)).decrypt(token.encode())
        except InvalidToken:
            continue
        return number
    return None


def as_stored(name: str) -> models.ExpressionWrapper:
    """Return an expression for the raw token of a secret column, which works with a wrong key and reveals no value."""
    return models.ExpressionWrapper(models.F(name), output_field=models.TextField())
