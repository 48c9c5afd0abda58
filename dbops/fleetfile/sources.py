"""Read secrets from the fleet file, another file or the environment. Errors contain no secrets."""

import os
from pathlib import Path

from django.conf import settings

from dbops.engine.phrases import phrase, said
from dbops.fleetfile.document import Section
from dbops.fleetfile.rules import CONTROL
from dbops.security.vault_paths import VaultPath

PASSWORD_KEYS = ("password", "password_file", "password_env", "password_vault")
LIMIT_BYTES = 4096


def either(one: str, other: str) -> str:
    """Return the problem of two keys of which the file may have one."""
    return phrase("set either {one} or {other}, not both", one=one, other=other)


def read_password(section: Section, base_dir: Path | None) -> str | None:
    """Return an account's password; ``None`` if there is none, or an invalid one, which is an error."""
    given = [key for key in PASSWORD_KEYS if key in section]
    for key in given[1:]:
        section.errors.add(section.at(key), either(given[0], key))
    if len(given) != 1:
        return None
    key = given[0]
    text = section.value(key, str)
    if text is None:
        return None
    if key == "password_vault":
        return read_path(section, key, text)
    if key != "password":
        if base_dir is None:
            section.errors.add(
                section.at(key),
                phrase(
                    "only `manage.py fleet import` can read files and variables of the dashboard's machine; "
                    "set `password`, or omit it to keep the stored one"
                ),
            )
            return None
        found = _from_file(section, base_dir, text) if key == "password_file" else _from_environment(section, text)
        if found is None:
            return None
        text = found
    return _checked(section, key, text)


def read_path(section: Section, key: str, text: str) -> VaultPath | None:
    """Return a path in Vault; ``None`` for an invalid one, which is an error."""
    try:
        if not settings.VAULT:
            raise ValueError(phrase("no Vault is configured: set DBOPS_VAULT_ADDRESS"))
        return VaultPath.parse(text)
    except ValueError as error:
        section.errors.add(section.at(key), said(error))
        return None


def _from_file(section: Section, base_dir: Path, name: str) -> str | None:
    path = base_dir / name
    try:
        if not path.is_file():
            raise FileNotFoundError(2, phrase("file not found"))
        if path.stat().st_size > LIMIT_BYTES:
            raise OSError(27, phrase("too large for a password"))
        return path.read_text().removesuffix("\n").removesuffix("\r")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or phrase("not text")
        text = phrase("{path} cannot be read: {problem}", path=repr(str(path)), problem=reason)
        section.errors.add(section.at("password_file"), text)
        return None


def _from_environment(section: Section, name: str) -> str | None:
    value = os.environ.get(name)
    if value is None:
        section.errors.add(
            section.at("password_env"), phrase("the environment has no variable {name}", name=repr(name))
        )
    return value


def _checked(section: Section, key: str, text: str) -> str | None:
    if not text:
        section.errors.add(section.at(key), phrase("the password is empty"))
        return None
    if CONTROL.search(text):
        section.errors.add(section.at(key), phrase("the password contains line breaks or control characters"))
        return None
    return text
