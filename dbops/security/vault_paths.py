"""Where a secret is kept in Vault or OpenBao: a path below the prefix of the settings, and a field."""

import re
from typing import Self

from dbops.engine.phrases import phrase

#: What such a column contains in dbops's own database. No encrypted text begins like this.
SCHEME = "vault:"
MOST_CHARACTERS = 300
# A part that begins with a letter, a digit or an underscore is never ".." and never empty: no path leaves the prefix.
_PART = re.compile("[A-Za-z0-9_][A-Za-z0-9._-]*")


class VaultPath(str):
    """``clusters/shop#admin``: the field ``admin`` of the secret ``clusters/shop``, below the prefix of the settings."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the path that a person wrote. Raises ``ValueError``, in words."""
        path, _, field = text.partition("#")
        if len(text) > MOST_CHARACTERS or not all(_PART.fullmatch(part) for part in (*path.split("/"), field)):
            raise ValueError(
                phrase("use path#field, such as clusters/shop#admin, below the prefix of DBOPS_VAULT_PREFIX")
            )
        return cls(text)

    @classmethod
    def of_column(cls, stored: str) -> Self | None:
        """Return the path that a column contains; ``None`` if it contains an encrypted secret, or nothing."""
        return cls(stored.removeprefix(SCHEME)) if stored.startswith(SCHEME) else None

    @property
    def column(self) -> str:
        """What a column contains for it."""
        return f"{SCHEME}{self}"

    @property
    def path(self) -> str:
        return self.partition("#")[0]

    @property
    def field(self) -> str:
        return self.partition("#")[2]

    def beside(self, ending: str) -> "VaultPath":
        """Return another field of the same secret: this one's name, with an ending."""
        return VaultPath(f"{self}{ending}")
