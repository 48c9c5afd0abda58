"""The lab's accounts with random passwords, kept between runs, and private files."""

import json
import os
import secrets
from pathlib import Path

from lab.flavors.base import Account

HOSTS_WITH_ACCOUNTS = range(1, 8)
#: key to user name; the dashboard gets only admin, replication, backup, and those of single hosts
USERS = {
    **{"owner": "lab", "admin": "dbops", "replication": "repl", "backup": "backup", "load": "load"},
    **{f"local-{number}": f"dbops{number}" for number in HOSTS_WITH_ACCOUNTS},
    **{f"backup-{number}": f"backup{number}" for number in HOSTS_WITH_ACCOUNTS},
}


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, at any moment."""
    temporary = path.with_name(path.name + ".new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    temporary.replace(path)


def read_or_make_accounts(path: Path) -> dict[str, Account]:
    """Return the accounts of ``USERS`` with the passwords of the file; create the file if missing."""
    if not path.exists():
        write_private(path, json.dumps({key: secrets.token_urlsafe(18) for key in USERS}, indent=2) + "\n")
    passwords = json.loads(path.read_text())
    return {key: Account(user, passwords[key]) for key, user in USERS.items()}
