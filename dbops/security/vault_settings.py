"""Where Vault or OpenBao is, how dbops logs in there, and which paths it may read."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_PATH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(?:/[A-Za-z0-9_][A-Za-z0-9._-]*)*")
#: Where Kubernetes puts the token of a pod's service account.
KUBERNETES_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105 - a path


@dataclass(frozen=True, slots=True)
class VaultSettings:
    """The settings ``DBOPS_VAULT_...``. Without an address, Vault is not used.

    Args:
        prefix: path below the mount that dbops reads from, and nothing beside it.
        auth_mount: where the login is mounted; empty: as Vault does by default.
        cache_seconds: how long a secret is used without asking again.
        outage_seconds: how long a secret is used while Vault does not answer, since it last did.
    """

    address: str = ""
    mount: str = "secret"
    kv_version: int = 2
    prefix: str = "dbops"
    namespace: str = ""
    ca_file: str = ""
    token_file: str = ""
    role_id: str = ""
    secret_id_file: str = ""
    kubernetes_role: str = ""
    kubernetes_token_file: str = KUBERNETES_TOKEN
    auth_mount: str = ""
    timeout_seconds: int = 3
    cache_seconds: int = 300
    outage_seconds: int = 3600

    def __bool__(self) -> bool:
        return bool(self.address)

    @property
    def login(self) -> str:
        """How dbops logs in."""
        return "token" if self.token_file else "AppRole" if self.role_id else "Kubernetes"


#: The variable of each setting.
VARIABLES = {field.name: f"DBOPS_VAULT_{field.name.upper()}" for field in fields(VaultSettings)}


def read_vault(environment: Mapping[str, str]) -> VaultSettings:
    """Return the settings from environment variables.

    Raises:
        ValueError: one is invalid, or not exactly one way to log in is set.
    """
    given: dict[str, Any] = {}
    for field in fields(VaultSettings):
        if text := environment.get(VARIABLES[field.name], ""):
            given[field.name] = _number(field.name, text) if field.type in (int, "int") else text
    found = VaultSettings(**given)
    if found:
        _check(found)
    return found


def _number(name: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,7}", text):
        raise ValueError(f"{VARIABLES[name]} must be a whole number, not {text!r}")
    return int(text)


def _check(found: VaultSettings) -> None:
    if "@" in found.address:  # a password: not into a message
        raise ValueError("DBOPS_VAULT_ADDRESS must have no user and no password")
    if not _is_address(found.address):
        raise ValueError(f"DBOPS_VAULT_ADDRESS must be an https:// address, not {found.address!r}")
    for name in ("mount", "prefix", *(["auth_mount"] if found.auth_mount else [])):
        if not _PATH.fullmatch(getattr(found, name)):
            raise ValueError(f"{VARIABLES[name]} must be a path such as dbops, not {getattr(found, name)!r}")
    if found.kv_version not in (1, 2):
        raise ValueError(f"DBOPS_VAULT_KV_VERSION must be 1 or 2, not {found.kv_version}")
    if not found.timeout_seconds:
        raise ValueError("DBOPS_VAULT_TIMEOUT_SECONDS must be at least 1")
    if found.ca_file and not Path(found.ca_file).is_file():
        raise ValueError(f"DBOPS_VAULT_CA_FILE: there is no file {found.ca_file}")
    if bool(found.role_id) != bool(found.secret_id_file):
        raise ValueError("DBOPS_VAULT_ROLE_ID and DBOPS_VAULT_SECRET_ID_FILE need each other")
    if sum(map(bool, (found.token_file, found.role_id, found.kubernetes_role))) != 1:
        raise ValueError(
            "DBOPS_VAULT_ADDRESS needs one way to log in: DBOPS_VAULT_TOKEN_FILE, DBOPS_VAULT_ROLE_ID or "
            "DBOPS_VAULT_KUBERNETES_ROLE"
        )


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return (
            parts.scheme == "https" and bool(parts.hostname) and parts.port != 0 and not (parts.query or parts.fragment)
        )
    except ValueError:  # the port is no number
        return False
