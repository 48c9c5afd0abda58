"""Secrets of commands: in a file, or the path of one in Vault. As an argument a secret would appear in process lists."""

from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from dbops.security.vault_paths import VaultPath


def add_secret_arguments(parser: CommandParser, name: str, text: str, *, required: bool = False) -> None:
    """Add ``--NAME-file`` and ``--NAME-vault``, of which one can be given. ``text`` names the secret in the help."""
    one = parser.add_mutually_exclusive_group(required=required)
    one.add_argument(
        f"--{name}-file", type=Path, help=f"file with {text}, - for standard input; it is stored encrypted"
    )
    one.add_argument(f"--{name}-vault", type=vault_path, metavar="PATH#FIELD", help=f"where {text} is in Vault")


def given_secret(options: dict[str, Any], name: str) -> str:
    """Return a secret that ``add_secret_arguments`` added, or its ``VaultPath``; ``""`` without one. Raises as ``text_of``."""
    return options[f"{name}_vault"] or text_of(options[f"{name}_file"]).strip()


def vault_path(text: str) -> VaultPath:
    """Return the path of an argument. Raises ``ArgumentTypeError``."""
    if not settings.VAULT:
        raise ArgumentTypeError("no Vault is configured: set DBOPS_VAULT_ADDRESS")
    try:
        return VaultPath.parse(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def text_of(path: Path | None) -> str:
    """Return the text of a file, of ``-`` one line of standard input; ``""`` without one. Raises ``CommandError``."""
    try:
        if path == Path("-"):
            return input()
        return path.read_text() if path else ""
    except (OSError, UnicodeError, EOFError) as error:
        raise CommandError(f"{path}: {getattr(error, 'strerror', None) or 'not a text'}. Nothing changed.") from None
