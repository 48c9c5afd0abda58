"""Command lines of ssh between two hosts, and the lines that let a key in."""

import shlex
from collections.abc import Sequence

#: A source that is paused has to be given back within a minute after the link broke; a cut of 20 s is borne all the same.
PAUSED_DEAD_AFTER_SECONDS = 40


DEAD_AFTER_SECONDS = 60


ALIVE_INTERVAL_SECONDS = 10


def ssh_command(
    *,
    address: str,
    port: int,
    user: str,
    bind_address: str,
    ciphers: str,
    directory: str,
    dead_after_seconds: int = DEAD_AFTER_SECONDS,
    attempts: int = 1,
    log_level: str = "ERROR",
) -> list[str]:
    """Return the command with which the target pulls from the source. ``directory`` holds the run's key and known_hosts.

    No configuration file, agent or password is used, the host key is pinned, nothing is compressed (measured: ``-C`` is
    limited to about 35 MiB/s), and a peer that is silent for ``dead_after_seconds`` is dead.
    ``attempts`` are made a second apart, ten seconds each at most. ``log_level`` is OpenSSH's.
    """
    options = {
        "BatchMode": "yes",
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
        "StrictHostKeyChecking": "yes",
        "UserKnownHostsFile": f"{directory}/known_hosts",
        "GlobalKnownHostsFile": "/dev/null",
        "Compression": "no",
        "Ciphers": ciphers,
        "ConnectTimeout": "10",
        "ConnectionAttempts": str(attempts),
        "ServerAliveInterval": str(ALIVE_INTERVAL_SECONDS),
        "ServerAliveCountMax": str(dead_after_seconds // ALIVE_INTERVAL_SECONDS - 1),
        "LogLevel": log_level,
    }
    if bind_address:
        options["BindAddress"] = bind_address
    command = ["ssh", "-F", "/dev/null", "-T", "-x", "-a", "-e", "none"]
    command += [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    return [*command, "-i", f"{directory}/key", "-p", str(port), "-l", user, "--", address]


def known_host(address: str, port: int, host_key: str) -> str:
    """Return a pinned key as a line of known_hosts, for the address that the other host uses."""
    place = address if port == 22 else f"[{address}]:{port}"
    return f"{place} {host_key}"


def allowed_from(*addresses: str) -> str:
    """Return the addresses from which a run's key may be used, as ``from=`` wants them. Empty ones are left out."""
    return ",".join(dict.fromkeys(filter(None, addresses)))


def show(command: Sequence[str]) -> str:
    """Return a command line as a person would type it."""
    return shlex.join(command)
