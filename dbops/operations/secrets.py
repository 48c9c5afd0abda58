"""Rotate the key that encrypts stored secrets, and retire older ones."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from cryptography.fernet import InvalidToken
from django.conf import settings
from django.db import transaction
from django.db.models import Model

from dbops.audit.log import append
from dbops.database import clock
from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase
from dbops.models import AuditEntry
from dbops.models.secret import as_stored, as_token, decrypt, encrypt, key_file, key_number, secret_columns
from dbops.security.key_file import change_keys
from dbops.security.keys import make_encryption_key
from dbops.security.vault_paths import VaultPath

SUBJECT = "stored secrets"
ROTATED = "secrets.rotated"
#: After a rotation: a process that had read the keys just before has long stored what it encrypted.
RETIRES_AFTER_SECONDS = 60


@dataclass(frozen=True, slots=True)
class SecretCounts:
    """The secrets of one column by their key: the current one, an older one, none that is known. ``in_vault``: they need none."""

    table: str
    column: str
    current: int = 0
    older: int = 0
    unreadable: int = 0
    in_vault: int = 0


@dataclass(frozen=True, slots=True)
class Rotation:
    """What a rotation did. ``unreadable`` names rows with secrets that no key decrypts; they stay as they are."""

    encrypted: int
    unreadable: tuple[str, ...] = ()


def count_secrets() -> list[SecretCounts]:
    """Return the number of secrets by column and key. One query for each column."""
    found = []
    for model, column in secret_columns():
        stored = _tokens(model, column)
        tokens = [token for _, token in stored if not VaultPath.of_column(token)]
        numbers = [key_number(token) for token in tokens]
        unreadable, current = numbers.count(None), numbers.count(0)
        older = len(numbers) - unreadable - current
        found.append(
            SecretCounts(model._meta.model_name or "", column, current, older, unreadable, len(stored) - len(tokens))
        )
    return found


def rotate_secrets(*, actor: str, make_key: bool = True) -> Rotation:
    """Encrypt every stored secret with a new key. The older keys stay in the file, so that other processes and backups can be read.

    Running processes read the file again as soon as they need it. The caller has checked the permission of ``actor``.

    Args:
        make_key: put a new key into the file first; else the first key of the setting or file is used.

    Raises:
        Refused: the file cannot be replaced here (``secrets.key_elsewhere``). Nothing was changed.
    """
    if make_key:
        _replace_keys(phrase("Rotating the key of stored secrets"), lambda keys: [make_encryption_key(), *keys])
    encrypted, unreadable = 0, []
    with transaction.atomic():
        for model, column in secret_columns():
            for key, token in _tokens(model, column):
                if (number := key_number(token)) == 0:
                    continue
                if number is None:
                    unreadable.append(f"{model._meta.model_name} {key}: {column}")
                else:
                    encrypted += _encrypt_again(model, column, key, token)
        detail = {"encrypted": encrypted, "unreadable": len(unreadable), "new_key": make_key}
        append(actor=actor, action=ROTATED, subject=SUBJECT, detail=detail)
    return Rotation(encrypted, tuple(unreadable))


def retire_keys(*, actor: str) -> int:
    """Remove older keys from the file; return their number. The caller has checked the permission of ``actor``.

    Raises:
        Refused: a secret needs one, or the keys were rotated a moment ago (``secrets.key_in_use``); the file cannot be replaced here
            (``secrets.key_elsewhere``). Nothing was changed.
    """
    operation = phrase("Retiring older keys of stored secrets")
    key_file.take_up()
    if older := sum(counts.older for counts in count_secrets()):
        raise Refused(
            "secrets.key_in_use", operation, cause=phrase("{older} stored secrets need an older key", older=older)
        )
    retired = len(settings.ENCRYPTION_KEYS) - 1
    since = clock.now() - timedelta(seconds=RETIRES_AFTER_SECONDS)
    if AuditEntry.objects.filter(action=ROTATED, at__gt=since).exists():
        found = phrase(
            "the keys were rotated less than {retires_after_seconds} s ago, and a process may still store an "
            "older secret",
            retires_after_seconds=RETIRES_AFTER_SECONDS,
        )
        raise Refused("secrets.key_in_use", operation, cause=found)
    if retired:
        _replace_keys(operation, lambda keys: keys[:1])
        append(actor=actor, action="secrets.keys_retired", subject=SUBJECT, detail={"keys": retired})
    return retired


def _tokens(model: type[Model], column: str) -> list[tuple[int, str]]:
    rows = model._default_manager.exclude(**{column: ""}).exclude(**{f"{column}__isnull": True}).order_by("pk")
    return list(rows.annotate(stored_token=as_stored(column)).values_list("pk", "stored_token"))


def _encrypt_again(model: type[Model], column: str, key: int, token: str) -> int:
    """Encrypt one secret, unless a person has just replaced it."""
    try:
        new = encrypt(decrypt(token))
    except InvalidToken:  # a replaced key file
        return 0
    rows = model._default_manager.annotate(stored_token=as_stored(column)).filter(pk=key, stored_token=token)
    return rows.order_by().update(**{column: as_token(new)})


def _replace_keys(operation: str, change: Callable[[list[str]], list[str]]) -> None:
    file = settings.ENCRYPTION_KEY_FILE
    if not settings.ENCRYPTION_KEYS_IN_FILE:
        raise Refused("secrets.key_elsewhere", operation, cause=phrase("the keys are in DBOPS_ENCRYPTION_KEY"))
    try:
        change_keys(file, change)
    except OSError as error:
        raise Refused("secrets.key_elsewhere", operation, cause=f"{file}: {error.strerror or error}") from None
    key_file.take_up()
