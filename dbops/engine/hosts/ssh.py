"""Build ssh command lines between two hosts, and the authorized_keys lines for a key."""

import shlex
from collections.abc import Sequence

#: A paused source must be released within a minute after the connection broke; a break of 20 s must be tolerated.
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
    certificate_name: str = "",
) -> list[str]:
    """Return the command with which the target pulls from the source. ``directory`` has the run's key and known_hosts.

    No configuration file, agent or password is used, the host key is pinned, nothing is compressed (measured: ``-C`` is limited
    to about 35 MiB/s), and a peer that is silent for ``dead_after_seconds`` is dead. ``attempts`` are made a second apart, with a
    limit of ten seconds each. ``log_level`` is OpenSSH's. ``certificate_name``: of the source's host certificate, if that proves it.
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
    if certificate_name:
        options["HostKeyAlias"] = certificate_name
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
    """Return the addresses that may use a run's key, in the form of ``from=``. Empty ones are left out."""
    return ",".join(dict.fromkeys(filter(None, addresses)))


def show(command: Sequence[str]) -> str:
    """Return a command line as a person would type it."""
    return shlex.join(command)
