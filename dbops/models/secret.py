"""A text column that is encrypted at rest."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.apps import apps
from django.conf import settings
from django.db import models
from django.db.models.query_utils import DeferredAttribute

from dbops.engine.errors import Refused
from dbops.security.key_file import Stamp, read_keys, stamp_of


@lru_cache
def _cipher(keys: tuple[str, ...]) -> MultiFernet:
    return MultiFernet([Fernet(key) for key in keys])


class _KeyFile:
    """The file of the keys, which ``manage.py secrets`` replaces while other processes run."""

    def __init__(self) -> None:
        self.seen: Stamp | None = stamp_of(settings.ENCRYPTION_KEY_FILE)

    def take_up(self) -> bool:
        """Read the keys if the file was replaced; return whether it was."""
        if not settings.ENCRYPTION_KEYS_IN_FILE:
            return False
        stamp = stamp_of(settings.ENCRYPTION_KEY_FILE)
        if stamp is None or stamp == self.seen:
            return False
        settings.ENCRYPTION_KEYS = read_keys(settings.ENCRYPTION_KEY_FILE)
        self.seen = stamp
        return True


key_file = _KeyFile()


def cipher() -> MultiFernet:
    """Return the cipher with the current keys: the first encrypts, all decrypt."""
    return _cipher(tuple(settings.ENCRYPTION_KEYS))


def encrypt(text: str) -> str:
    """Return a token of the newest key: no row may come to need a key that is about to be retired."""
    key_file.take_up()
    return cipher().encrypt(text.encode()).decode()


def decrypt(token: str) -> str:
    """Return the text of a token. Raises ``InvalidToken``."""
    try:
        return cipher().decrypt(token.encode()).decode()
    except InvalidToken:
        if not key_file.take_up():
            raise
        return cipher().decrypt(token.encode()).decode()


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
        return decrypt(sealed.token)
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
        return encrypt(str(value)) if value else value


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
    key_file.take_up()
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


def as_token(token: str) -> Any:
    """Return the value that stores a token as it is."""
    return _Sealed(token)


def secret_columns() -> list[tuple[type[models.Model], str]]:
    """Return every encrypted column of every table. A new one is among them without further ado."""
    return [
        (model, column.name)
        for model in apps.get_models()
        for column in model._meta.concrete_fields
        if isinstance(column, SecretTextField)
    ]
