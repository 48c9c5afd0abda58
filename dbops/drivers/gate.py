"""The gate: root's own program on a host in ``sudo`` mode, which runs nothing but what this dashboard signed.

``remote/gate.sh`` is the host's side. A command carries the host's pinned key and a challenge that the gate has just made, so
that a recorded command is good for nothing, on this host and on every other one.
"""

import base64
import hashlib
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from dbops.engine.hosts.scripts import load

#: Of the text between dashboard and gate; another one needs a new program on the hosts.
VERSION = "1"
DIRECTORY = "/usr/local/libexec"
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
REFUSED_STATUS, REFUSED_PREFIX = 97, "dbops-gate: "
CHALLENGE = re.compile(rb"(?:^|\n)dbops-gate ([0-9a-f-]+)\n")
#: For accounts that may run any command: the same exchange, without a check.
UNCHECKED = 'echo "dbops-gate 0"; read -r signature; text=$(cat); eval "$text"'
PROGRAM = load("exchangeable") + (Path(__file__).parent / "remote" / "gate.sh").read_text(encoding="utf-8")


class Signer(Protocol):
    """The dashboard's key."""

    @property
    def public(self) -> str:
        """Return the public key in PEM."""
        ...

    def sign(self, text: bytes) -> bytes:
        """Return a signature that ``openssl dgst -sha256`` verifies."""
        ...


@dataclass(frozen=True, slots=True)
class Gate:
    """The gate of one host.

    Args:
        host_key: the host's pinned key, ``type base64``.
        key: signs the commands of this dashboard.
    """

    host_key: str
    key: Signer = field(repr=False)

    @property
    def name(self) -> str:
        """Return the name of program and sudoers file: another host key or dashboard has another one."""
        both = f"{self.host_key}\n{self.key.public}"
        return f"dbops-gate-{hashlib.sha256(both.encode()).hexdigest()[:8]}"

    @property
    def path(self) -> str:
        return f"{DIRECTORY}/{self.name}"

    @property
    def command(self) -> str:
        """Return the POSIX command line for the host's SSH user: the gate, or any command where that one is not installed."""
        unchecked = shlex.join(["sudo", "-n", "--", "sh", "-c", UNCHECKED])
        return f"[ ! -x {self.path} ] || exec sudo -n -- {self.path}; exec {unchecked}"

    def message(self, challenge: str, command: str, stdin: bytes) -> bytes:
        """Return what the gate gets on its standard input: a signed shell text that runs the command.

        Args:
            challenge: of the gate.
            command: POSIX command line.
            stdin: standard input of the command.
        """
        feed = f"printf %s {base64.b64encode(stdin).decode()} | base64 -d | " if stdin else "exec "
        text = f"# dbops-gate {VERSION} {challenge} {self.host_key}\n{feed}{command}".encode()
        return base64.b64encode(self.key.sign(text)) + b"\n" + text

    def program(self, search_path: str = SEARCH_PATH) -> str:
        """Return the program's text, for ``path`` on the host. ``search_path``: where it finds every program."""
        constants = {
            "self": self.path,
            "version": VERSION,
            "host": self.host_key,
            "key": self.key.public,
            "PATH": search_path,
        }
        assigned = "".join(f"{name}={shlex.quote(value)}\n" for name, value in constants.items())
        return f"#!/bin/sh\n# Made by `manage.py host gate`. It has no secret. Install it as {self.path}\n{assigned}export PATH\n{PROGRAM}"

    def sudoers(self, user: str) -> str:
        """Return the sudoers file that lets the host's SSH user run the gate, and nothing else."""
        # a name of capital letters would be an alias
        name = re.sub(r"^[A-Z]|[^A-Za-z0-9._-]", r"\\\g<0>", user)
        # no log of standard input, which has passwords, and of standard output, which is a whole backup
        return (
            f"# Made by `manage.py host sudoers`. Install it as /etc/sudoers.d/{self.name}\n"
            f"Defaults:{name} env_reset, !requiretty, !log_input, !log_output\n"
            f"{name} ALL=(root) NOPASSWD: {self.path}\n"
        )
