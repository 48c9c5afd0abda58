"""A text column that is encrypted at rest."""

from functools import lru_cache
from typing import Any

from cryptography.fernet import Fernet, MultiFernet
from django.conf import settings
from django.db import models


@lru_cache
def _cipher(keys: tuple[str, ...]) -> MultiFernet:
    return MultiFernet([Fernet(key) for key in keys])


def cipher() -> MultiFernet:
    """Return the cipher of the current keys: the first encrypts, all decrypt."""
    return _cipher(tuple(settings.ENCRYPTION_KEYS))


class SecretTextField(models.TextField):
    """Text, kept as a Fernet token. It cannot be searched, and a wrong key raises ``cryptography.fernet.InvalidToken``."""

    def from_db_value(self, value: str | None, *_: Any) -> str | None:
        return cipher().decrypt(value.encode()).decode() if value else value

    def get_prep_value(self, value: Any) -> Any:
        return cipher().encrypt(str(value).encode()).decode() if value else value
