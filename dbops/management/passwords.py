"""Read a password for a command. As an argument it would appear in process lists."""

import getpass
import sys


def password_line() -> str:
    """Return what standard input has, without the end of its line; on a terminal, one line that the terminal does not show."""
    if not sys.stdin.isatty():
        return sys.stdin.read().removesuffix("\n").removesuffix("\r")
    try:
        return getpass.getpass("Password: ")
    except EOFError:
        return ""
