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
    """Return the cipher of the current keys: the first encrypts, all decrypt."""
    return _cipher(tuple(settings.ENCRYPTION_KEYS))


@dataclass(frozen=True, slots=True)
class _Sealed:
    """A token as it came from its row. It is decrypted for who asks for the value: most readers of a row never do."""

    token: str = field(repr=False)


class _Opened(DeferredAttribute):
    """Decrypts with the first reading of the attribute."""

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
            cause="it cannot be decrypted with the current keys",
        ) from error


class SecretTextField(models.TextField):
    """Text, kept as a Fernet token. It cannot be searched, and reading it with a wrong key raises ``Refused``.

    A row is read, listed and saved without its secrets being decrypted: a lost key stops what needs the secret, and
    nothing else.
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
    """Tell whether a row has a value in a secret column, whatever key it was encrypted with."""
    if name not in row.get_deferred_fields():
        return bool(row.__dict__[name])
    return type(row)._default_manager.filter(pk=row.pk).exclude(**{name: ""}).exists()


def holds(row: models.Model, name: str, value: str | None) -> bool:
    """Tell whether a secret column has this very value. One that no key decrypts has none: it is set anew."""
    try:
        return bool(getattr(row, name) == value)
    except Refused:
        return False


def key_number(token: str) -> int | None:
    """Return which of the current keys decrypts a stored token: 0 is the one that encrypts now; ``None`` when none does."""
    for number, key in enumerate(settings.ENCRYPTION_KEYS):
        try:
            _cipher((key,)).decrypt(token.encode())
        except InvalidToken:
            continue
        return number
    return None


def as_stored(name: str) -> models.ExpressionWrapper:
    """Return an expression for the token of a secret column: a row with a wrong key can be read by it, and shows no value."""
    return models.ExpressionWrapper(models.F(name), output_field=models.TextField())
