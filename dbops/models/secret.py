"""A text column whose secret is in it, encrypted, or in Vault, with its path in the column."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.apps import apps
from django.conf import settings
from django.db import models
from django.db.models.query_utils import DeferredAttribute

from dbops.engine.errors import NoAccess, Refused
from dbops.engine.phrases import phrase
from dbops.security.key_file import Stamp, read_keys, stamp_of
from dbops.security.vault import reading, vault
from dbops.security.vault_paths import VaultPath


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
    """What a column contains, decrypted or read from Vault only on access, because most readers of a row do not need it."""

    token: str = field(repr=False)


class _Opened(DeferredAttribute):
    """Descriptor that decrypts on the first read of the attribute. What is in Vault is read each time, and not kept in the row:
    saving the row must not copy it into the database.
    """

    def __get__(self, row: models.Model | None, owner: Any = None) -> Any:
        value = super().__get__(row, owner)
        if row is not None and isinstance(value, _Sealed):
            if path := VaultPath.of_column(value.token):
                return read_from_vault(path, self.field)
            value = row.__dict__[self.field.attname] = _open(row, self.field, value)
        return value

    def __set__(self, row: models.Model, value: Any) -> None:
        row.__dict__[self.field.attname] = _Sealed(value.column) if isinstance(value, VaultPath) else value


def read_from_vault(path: VaultPath, column: Any, *, is_fresh: bool = False) -> str:
    """Return a secret in Vault that can be one of this column.

    Args:
        column: a ``SecretTextField``.
        is_fresh: read it now, whatever is kept in memory.

    Raises:
        NoAccess: it cannot be this secret (``vault.bad_value``).
        Refused, Unreachable: as ``security.vault.Vault.read``.
    """
    found = vault().read(path, is_fresh=is_fresh)
    try:
        column.check_text(found)
    except ValueError as error:
        raise NoAccess("vault.bad_value", reading(path), cause=error.args[0]) from None
    return found


def check_line(text: str) -> None:
    """Raise ``ValueError`` if a secret has more than one line."""
    if any(sign < " " or sign == "\x7f" for sign in text):
        raise ValueError(phrase("it has line breaks or control characters"))


def check_word(text: str) -> None:
    """Raise ``ValueError`` if a secret cannot be in a header of HTTP."""
    if not all("!" <= sign <= "~" for sign in text):
        raise ValueError(phrase("the secret has a space or a character outside ASCII"))


def check_lines(text: str) -> None:
    """Accept a secret with any lines."""


def _open(row: models.Model, column: "models.Field[Any, Any]", sealed: _Sealed) -> str:
    try:
        return decrypt(sealed.token)
    except InvalidToken as error:
        raise Refused(
            "secret.lost",
            phrase(
                "Reading the {column} of {row}",
                column=column.verbose_name,
                row=getattr(row, "name", row),
            ),
            cause=phrase("the current keys cannot decrypt it"),
        ) from error


class SecretTextField(models.TextField):
    """Text stored as a Fernet token, or the path of a secret in Vault (``VaultPath``). It is not searchable.

    Reading, listing and saving a row does not decrypt its secrets, so a lost key affects only users of the secret. They get
    ``Refused`` (``secret.lost``), or an error of ``security.vault.Vault.read``.

    Args:
        check_text: raises ``ValueError``, in words, for text that cannot be this secret. It is asked at each reading from Vault.
    """

    descriptor_class = _Opened

    def __init__(self, *args: Any, check_text: Callable[[str], None] = check_line, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.check_text = check_text

    def from_db_value(self, value: str | None, *_: Any) -> "_Sealed | str | None":
        return _Sealed(value) if value else value

    def clean(self, value: Any, model_instance: models.Model | None) -> Any:
        """Check a value; leave a path in Vault as it is: ``full_clean`` sets what this returns."""
        cleaned = super().clean(value, model_instance)
        kept = model_instance.__dict__.get(self.attname) if model_instance else None
        return kept if isinstance(kept, _Sealed) and VaultPath.of_column(kept.token) else cleaned

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:  # noqa: ARG002 - Django's signature
        return model_instance.__dict__.get(self.attname, "")

    def get_prep_value(self, value: Any) -> Any:
        if isinstance(value, _Sealed):
            return value.token
        if isinstance(value, VaultPath):
            return value.column
        return encrypt(str(value)) if value else value


def is_set(row: models.Model, name: str) -> bool:
    """Whether a row has a value in a secret column, regardless of the key."""
    if name not in row.get_deferred_fields():
        return bool(row.__dict__[name])
    return type(row)._default_manager.filter(pk=row.pk).exclude(**{name: ""}).exists()


def holds(row: models.Model, name: str, value: str | None) -> bool:
    """Whether a secret column has this value. An undecryptable value never equals, so it is set again. Vault is not asked."""
    kept = vault_path(row, name)
    if kept is not None or isinstance(value, VaultPath):
        return isinstance(value, VaultPath) and kept == value
    try:
        return bool(getattr(row, name) == value)
    except Refused:
        return False


def vault_path(row: models.Model, name: str) -> VaultPath | None:
    """Return where in Vault the secret of a column is; ``None`` if it is in the database, or there is none. Vault is not asked."""
    found = row.__dict__.get(name) if name not in row.get_deferred_fields() else _stored(row, name)
    return VaultPath.of_column(found.token) if isinstance(found, _Sealed) else None


def vault_columns(row: models.Model) -> set[str]:
    """Return the columns of a row whose secret is in Vault."""
    return {column for model, column in secret_columns() if model is type(row) and vault_path(row, column)}


def vault_detail(row: models.Model) -> dict[str, str]:
    """Return the paths in Vault of a row's secrets by column, for the audit log."""
    return {column: path.column for column in vault_columns(row) if (path := vault_path(row, column))}


def check_entered(row: models.Model) -> None:
    """Check the secrets that were entered into a row. Vault is not asked. Raises ``ValueError``, in words."""
    for model, name in secret_columns():
        if model is type(row) and is_set(row, name) and not vault_path(row, name):
            model._meta.get_field(name).check_text(getattr(row, name))  # type: ignore[union-attr]


def _stored(row: models.Model, name: str) -> "_Sealed | str | None":
    found: _Sealed | str | None = type(row)._default_manager.values_list(name, flat=True).get(pk=row.pk)
    return found


def key_number(token: str) -> int | None:
    """Return the index of the key that decrypts a token (0 encrypts now), or ``None``. The path of a secret in Vault needs none: 0."""
    if VaultPath.of_column(token):
        return 0
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
