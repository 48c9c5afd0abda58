"""A connection to Vault or OpenBao that is logged in: it renews its token in time, and logs in again when it must.

Only ``Vault`` loads this module: without a Vault, no process loads hvac.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hvac
from hvac import exceptions

from dbops.engine.errors import DbopsError, NoAccess, Unreachable
from dbops.engine.phrases import phrase
from dbops.security.key_file import Stamp, stamp_of
from dbops.security.secret_files import read_secret
from dbops.security.vault_settings import VaultSettings

LOGGING_IN = phrase("Logging in to Vault")
MOST_CHARACTERS = 200


class VaultLogin:
    """One client of hvac. Not for several threads at once."""

    def __init__(self, settings: VaultSettings) -> None:
        self._settings = settings
        self._client: hvac.Client | None = None
        self._stamp: Stamp | None = None
        self._renew_at = float("inf")
        self._is_renewable = False

    def call(self, operation: str, ask: Callable[[hvac.Client], Any]) -> Any:
        """Return what ``ask`` returns; log in before where that is needed, and once more if the token is refused.

        Raises:
            Unreachable: ``vault.unreachable``, ``vault.sealed``, ``vault.certificate``.
            NoAccess: ``vault.login``; ``vault.denied`` and ``vault.missing`` of what was asked.
        """
        try:
            return self._ask(operation, ask)
        except NoAccess as error:
            # A token that ended is refused with the same status as a path that the policy does not contain.
            if error.code != "vault.denied" or self._is_token_good():
                raise
            self._client = None
        return self._ask(operation, ask)

    def _ask(self, operation: str, ask: Callable[[hvac.Client], Any]) -> Any:
        client = self._logged_in()
        with _as_errors(operation):
            return ask(client)

    def _is_token_good(self) -> bool:
        try:
            self._ask(LOGGING_IN, lambda client: client.auth.token.lookup_self())
        except NoAccess:
            return False
        return True

    def _logged_in(self) -> hvac.Client:
        if self._settings.token_file and self._stamp != stamp_of(Path(self._settings.token_file)):
            self._client = None
        if self._client is not None and time.monotonic() >= self._renew_at:
            self._renew(self._client)
        if self._client is None:
            self._log_in()
        assert self._client is not None  # noqa: S101 - for mypy
        return self._client

    def _log_in(self) -> None:
        client = self._new_client()
        with _as_errors(LOGGING_IN):
            token = self._token(client)
        self._client, self._is_renewable = client, bool(token.get("renewable"))
        self._plan_renewal(token.get("lease_duration") or token.get("ttl") or 0)

    def _token(self, client: hvac.Client) -> dict[str, Any]:
        """Log in. Return what Vault says of the token."""
        given = self._settings
        if given.token_file:
            self._stamp = stamp_of(Path(given.token_file))
            client.token = _read(read_secret, given.token_file)
            found: dict[str, Any] = client.auth.token.lookup_self()["data"]
        elif given.role_id:
            secret_id = _read(read_secret, given.secret_id_file)
            found = client.auth.approle.login(given.role_id, secret_id, mount_point=given.auth_mount or "approle")[
                "auth"
            ]
        else:
            # Every container of the pod can read it: Kubernetes sets its mode.
            jwt = _read(lambda file: file.read_text().strip(), given.kubernetes_token_file)
            mount = given.auth_mount or "kubernetes"
            found = client.auth.kubernetes.login(given.kubernetes_role, jwt, mount_point=mount)["auth"]
        return found

    def _renew(self, client: hvac.Client) -> None:
        """Renew the token; without success, the next login brings another one."""
        self._client = None
        if self._is_renewable:
            try:
                with _as_errors(LOGGING_IN):
                    token = client.auth.token.renew_self()["auth"]
            except NoAccess:
                return
            self._client = client
            self._plan_renewal(token["lease_duration"])

    def _plan_renewal(self, seconds: float) -> None:
        """Renew in the middle of the token's time; 0: it has no end."""
        self._renew_at = time.monotonic() + seconds / 2 if seconds else float("inf")

    def _new_client(self) -> hvac.Client:
        given = self._settings
        # All is given: hvac would else take a token, a namespace and an address of the account's own environment.
        client = hvac.Client(
            url=given.address,
            token="",
            namespace=given.namespace,
            verify=given.ca_file or True,
            timeout=given.timeout_seconds,
            allow_redirects=False,
        )
        # Neither a proxy nor a CA bundle nor a password of .netrc comes from the environment.
        client.session.trust_env = False
        return client


def _read(read: Callable[[Path], str], file: str) -> str:
    """Return the content of a file with a secret for the login. Raises ``NoAccess`` (``vault.login``)."""
    try:
        return read(Path(file))
    except OSError as error:
        raise NoAccess("vault.login", LOGGING_IN, cause=f"{file}: {error.strerror or error}") from None


@contextmanager
def _as_errors(operation: str) -> Iterator[None]:
    """Turn errors of hvac and of its connection into those of dbops."""
    try:
        yield
    except exceptions.VaultError as error:
        raise _of_answer(operation, error) from None
    except OSError as error:  # every error of the HTTP client is one
        if "certificate verify failed" in str(error):
            raise Unreachable("vault.certificate", operation, cause=type(error).__name__) from None
        raise Unreachable("vault.unreachable", operation, cause=type(error).__name__) from None
    except (KeyError, TypeError, AttributeError):
        raise Unreachable("vault.unreachable", operation, cause=phrase("its answer is not one of Vault")) from None


def _of_answer(operation: str, error: exceptions.VaultError) -> DbopsError:
    if not _is_of_vault(error):
        return Unreachable("vault.unreachable", operation, cause=phrase("its answer is not one of Vault"))
    errors = error.errors or []
    said = " ".join(" ".join(map(str, errors)).split())[:MOST_CHARACTERS]
    if isinstance(error, exceptions.VaultDown | exceptions.VaultNotInitialized):
        return Unreachable("vault.sealed", operation, cause=said)
    is_refusal = isinstance(error, exceptions.Forbidden | exceptions.Unauthorized)
    # A mount or namespace that is not there is a path that is not there.
    is_wrong = isinstance(error, exceptions.InvalidRequest | exceptions.InvalidPath | exceptions.UnsupportedOperation)
    if operation == LOGGING_IN and (is_refusal or is_wrong):
        return NoAccess("vault.login", operation, cause=said)
    if is_refusal:
        return NoAccess("vault.denied", operation, cause=said)
    if isinstance(error, exceptions.InvalidPath):
        return NoAccess(
            "vault.missing", operation, cause=phrase("there is no such secret, or its newest version is deleted")
        )
    return Unreachable("vault.unreachable", operation, cause=said or type(error).__name__)


def _is_of_vault(error: exceptions.VaultError) -> bool:
    """Whether Vault gave this answer: not a proxy before it, whose "not found" says nothing of a secret."""
    try:
        return isinstance(json.loads(error.text or ""), dict)
    except ValueError:
        return False
