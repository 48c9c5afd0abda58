"""Temporary SSH access between two hosts for one run: a key, a forced command, and their removal.

Uses the scripts and words of a rebuild's access (``steps.opening``). The key expires automatically, even without dbops; the
caller that opened access also closes it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dbops.engine.errors import RemoteFailure
from dbops.engine.flavors.tool_options import NO_TOOL
from dbops.engine.hosts.host_keys import HostAuthorities
from dbops.engine.hosts.jobs import IN_BASH
from dbops.engine.hosts.scripts import load
from dbops.engine.hosts.ssh import allowed_from, known_host, ssh_command
from dbops.engine.phrases import phrase
from dbops.engine.ports import Jobs


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One end of the access: host and jobs. ``certificate_name``: its certificate proves it, and not its pinned key."""

    name: str
    ssh_address: str
    ssh_port: int
    ssh_user: str
    stream_address: str
    local_address: str
    host_key: str
    authorized_keys_file: str
    sudo: bool
    jobs: Jobs = field(repr=False)
    certificate_name: str = ""
    authorities: HostAuthorities = HostAuthorities()

    @property
    def keys(self) -> tuple[str, str]:
        """Return the location of authorized keys for ``release.sh``: the file (empty for the account's own) and the account."""
        return self.authorized_keys_file, self.ssh_user


@dataclass(frozen=True, slots=True)
class HostAccess:
    """Access from ``source``, which sends, to ``target``, which pulls. ``run_id`` names the run on both. Each call can be repeated.

    All calls raise ``RemoteFailure`` (``host.script``) if the host's script fails, and errors of ``Jobs.act``.
    """

    run_id: str
    source: Endpoint
    target: Endpoint

    def make_key(self) -> str:
        """Create the run's key on the target unless it exists; return its public half."""
        source = self.source
        line = (
            source.authorities.known_hosts(source.certificate_name)
            if source.certificate_name
            else known_host(source.stream_address, source.ssh_port, source.host_key)
        )
        return act(self.target, phrase("Making the run's key"), load("make_key"), self.run_id, line).strip()

    def let_in(self, public_key: str, words: Sequence[str], script: str, *, key_seconds: int) -> None:
        """Authorize the key on the source, for a limited time and one command.

        Args:
            words: content of ``backup.argv`` for the script.
            script: the forced command.
        """
        act(
            self.source,
            phrase("Letting the run's key in"),
            load("common", "tool_options", "tool_account", "release", "open_source"),
            self.run_id,
            public_key,
            allowed_from(self.target.local_address, self.target.ssh_address),
            str(key_seconds),
            *self.source.keys,
            "1" if self.source.sudo else "0",
            "",
            *NO_TOOL,
            *words,
            stdin=f"\n----\n{script}".encode(),
        )

    def pull(self, ciphers: str, *, attempts: int = 1, log_level: str = "ERROR") -> list[str]:
        """Return the words of ssh on the target, without the word for the forced command."""
        return ssh_command(
            address=self.source.stream_address,
            port=self.source.ssh_port,
            user=self.source.ssh_user,
            bind_address=self.target.local_address,
            ciphers=ciphers,
            directory=self.target.jobs.run_directory,
            attempts=attempts,
            log_level=log_level,
            certificate_name=self.source.certificate_name,
        )

    def close(self) -> None:
        """Stop senders on the source, and remove the key."""
        act(
            self.source,
            phrase("Closing the source"),
            load("release", "close_source"),
            self.run_id,
            *self.source.keys,
            "",
            "",
            "",
        )

    def forget_key(self) -> None:
        """Remove the run's key from the target."""
        act(self.target, phrase("Removing the run's key"), "rm -f key key.pub known_hosts")


def remove_run(end: Endpoint) -> None:
    """Remove the run's files from a host."""
    act(end, phrase("Removing the run's directory"), 'cd / && rm -rf -- "$DBOPS_RUN_DIR"')


def act(end: Endpoint, operation: str, script: str, *arguments: str, stdin: bytes = b"") -> str:
    """Run a short script on a host and return its output.

    Raises:
        RemoteFailure: it failed (``host.script``); as ``Jobs.act``.
    """
    result = end.jobs.act(IN_BASH, script, *arguments, stdin=stdin)
    if result.exit_status != 0:
        said = f"{result.stdout}{result.stderr}".strip()[-500:]
        raise RemoteFailure(
            "host.script",
            phrase("{operation} on {end}", operation=operation, end=end.name),
            cause=phrase(
                "status {exit_status}: {said}", exit_status=result.exit_status, said=said or phrase("no words")
            ),
        )
    return result.stdout
