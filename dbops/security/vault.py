"""Read secrets from Vault or OpenBao, and keep them in this process's memory for a while. They are never written anywhere."""

import os
import threading
import time
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING

from django.conf import settings

from dbops.engine.errors import DbopsError, NoAccess, Unreachable
from dbops.engine.phrases import phrase
from dbops.security.vault_paths import VaultPath
from dbops.security.vault_settings import VaultSettings

if TYPE_CHECKING:
    from dbops.security.vault_login import VaultLogin

#: After Vault did not answer, it is not asked again for these seconds, after a refusal not for the same secret: a page with ten
#: secrets shall not wait ten times.
REST_SECONDS = 5.0
EVERY = ""


@dataclass(frozen=True, slots=True)
class _Kept:
    """The fields of one secret, and when Vault gave them (monotonic seconds)."""

    fields: dict[str, object] = field(repr=False)
    read_at: float


class Vault:
    """The secrets of one process.

    A secret is read again after ``cache_seconds``. If Vault does not answer then, the kept one is used for up to
    ``outage_seconds`` since it was read. If Vault refuses it or has it no more, it is forgotten at once.
    """

    def __init__(self, given: VaultSettings) -> None:
        self.settings = given
        self.process = os.getpid()
        self._login: VaultLogin = import_module("dbops.security.vault_login").VaultLogin(given)
        self._kept: dict[str, _Kept] = {}
        self._lock = threading.Lock()
        self._rests: dict[str, tuple[float, DbopsError]] = {}

    def read(self, path: VaultPath, *, is_fresh: bool = False) -> str:
        """Return a secret.

        Args:
            is_fresh: ask Vault, whatever is kept.

        Raises:
            Unreachable: ``vault.unreachable``, ``vault.sealed``, ``vault.certificate``, and no usable secret is kept.
            NoAccess: ``vault.off``, ``vault.login``, ``vault.denied``, ``vault.missing``, ``vault.bad_value``.
        """
        found = self._fields(path.path, is_fresh=is_fresh).get(path.field)
        if found is None:
            raise NoAccess(
                "vault.missing", reading(path), cause=phrase("the secret has no field {field}", field=path.field)
            )
        if not isinstance(found, str) or not found.strip():
            raise NoAccess("vault.bad_value", reading(path), cause=phrase("the field is empty, or not text"))
        return found.removesuffix("\n")

    def has(self, path: VaultPath) -> bool:
        """Whether a secret has a field. Raises as ``read``, if the secret cannot be read."""
        return path.field in self._fields(path.path)

    def retry(self) -> None:
        """Ask again at once, though Vault has just not answered."""
        self._rests.clear()

    def _fields(self, path: str, *, is_fresh: bool = False) -> dict[str, object]:
        kept = self._kept.get(path)
        if kept and not is_fresh and time.monotonic() - kept.read_at < self.settings.cache_seconds:
            return kept.fields
        with self._lock:
            kept = self._kept.get(path)  # another thread may have read it
            if kept and not is_fresh and time.monotonic() - kept.read_at < self.settings.cache_seconds:
                return kept.fields
            try:
                return self._ask(path, is_fresh=is_fresh)
            except NoAccess:
                self._kept.pop(path, None)
                raise
            except Unreachable:
                if kept and not is_fresh and time.monotonic() - kept.read_at < self.settings.outage_seconds:
                    return kept.fields
                raise

    def _ask(self, path: str, *, is_fresh: bool) -> dict[str, object]:
        for rest in (EVERY, *([] if is_fresh else [path])):
            until, error = self._rests.get(rest, (0.0, None))
            if error and time.monotonic() < until:
                raise type(error)(error.code, reading(path), cause=error.cause)
        given = self.settings
        whole = f"{given.prefix}/{path}"
        try:
            if given.kv_version == 2:  # noqa: PLR2004 - KV version 2
                answer = self._login.call(
                    reading(path),
                    lambda client: client.secrets.kv.v2.read_secret_version(
                        whole, mount_point=given.mount, raise_on_deleted_version=True
                    )["data"]["data"],
                )
            else:
                answer = self._login.call(
                    reading(path),
                    lambda client: client.secrets.kv.v1.read_secret(whole, mount_point=given.mount)["data"],
                )
        except Unreachable as error:
            is_of_path = error.code in ("vault.denied", "vault.missing")
            self._rests[path if is_of_path else EVERY] = (time.monotonic() + REST_SECONDS, error)
            raise
        self._rests.pop(path, None)
        self._kept[path] = _Kept(dict(answer), time.monotonic())
        return self._kept[path].fields


_vault: Vault | None = None


def vault() -> Vault:
    """Return this process's connection. A child process has its own: two must not share a connection.

    Raises:
        NoAccess: no Vault is set (``vault.off``).
    """
    global _vault  # noqa: PLW0603 - one a process
    given: VaultSettings = settings.VAULT
    if not given:
        raise NoAccess(
            "vault.off", phrase("Reading a secret from Vault"), cause=phrase("DBOPS_VAULT_ADDRESS is not set")
        )
    found = _vault
    if found is None or found.settings != given or found.process != os.getpid():
        found = _vault = Vault(given)
    return found


def reading(path: str) -> str:
    """Return the name of the operation, for errors."""
    return phrase("Reading {path} from Vault", path=path)
