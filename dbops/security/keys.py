"""The dashboard's secrets, from the environment or from files. The two keys are created on first start."""

import hashlib
import os
import re
import secrets
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

from cryptography.fernet import Fernet

from dbops.security.secret_files import read_secret


def dashboard_name(allowed_hosts: Sequence[str], signing_key: str) -> str:
    """Return a name of this installation that no other one has: its public host, and a part of its key's digest."""
    known = (host for host in allowed_hosts if host not in ("localhost", "127.0.0.1", "[::1]", "*"))
    host = re.sub(r"[^A-Za-z0-9._-]", "", next(known, socket.gethostname())).strip(".-_") or "dashboard"
    return f"{host}-{hashlib.sha256(f'dashboard:{signing_key}'.encode()).hexdigest()[:8]}"


def make_signing_key() -> str:
    """Return a new key of 64 URL-safe characters for sessions and forms."""
    return secrets.token_urlsafe(48)


def make_encryption_key() -> str:
    """Return a new Fernet key for stored credentials."""
    return Fernet.generate_key().decode()


def read_or_make(*, variable: str, file: Path, make: Callable[[], str]) -> str:
    """Return the secret from environment variable ``variable``, else from ``file``; create the file (0600) if missing.

    Two processes that start at the same time agree: the complete file is linked into place, and the second reads it.

    Raises:
        PermissionError: Other users can read the file, or this one cannot read or create it.
    """
    if value := os.environ.get(variable):
        return value
    try:
        return read_secret(file)
    except FileNotFoundError:
        _create(file, make())
    return read_secret(file)


def read_if_there(*, variable: str, file: Path) -> str:
    """Return the secret from environment variable ``variable``, else from ``file``; "" if there is neither.

    Raises:
        PermissionError: Other users can read the file, or this one cannot.
    """
    if value := os.environ.get(variable):
        return value
    try:
        return read_secret(file)
    except FileNotFoundError:
        return ""


def with_password(url: str, password: str) -> str:
    """Return an address with a password, if it is given and the address has none."""
    parts = urlsplit(url)
    if not password or parts.password is not None:
        return url
    place = f"{parts.username or ''}:{quote(password, safe='')}@{parts.netloc.rpartition('@')[2]}"
    return urlunsplit(parts._replace(netloc=place))


def _create(file: Path, content: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = file.with_name(f".{file.name}.{os.getpid()}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise PermissionError(
            f"{file} cannot be created ({error.strerror}). Is DBOPS_STATE_DIR set, and can this account write there?"
        ) from error
    with os.fdopen(descriptor, "w") as handle:
        handle.write(content + "\n")
    try:
        os.link(draft, file)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
