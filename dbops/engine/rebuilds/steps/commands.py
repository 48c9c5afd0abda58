"""Build the command lines of a run from its plan. The plan page shows the same commands."""

import shlex

from dbops.engine.flavors import Flavor
from dbops.engine.flavors.base import BackupRequest
from dbops.engine.hosts.ssh import DEAD_AFTER_SECONDS, PAUSED_DEAD_AFTER_SECONDS, allowed_from, known_host, ssh_command
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.rebuilds.steps.run import InstanceHandle, Run


def backup_command(plan: Plan, flavor: Flavor, directory: str) -> list[str]:
    """Return the command line of the backup tool on the source. ``directory`` is the run directory there."""
    return flavor.backup_command(
        plan.programs["source.backup"],
        BackupRequest(
            credentials_file=f"{directory}/backup.cnf",
            socket=plan.source.socket,
            datadir=plan.source.datadir,
            target_dir=f"{directory}/target",
            lsn_dir=f"{directory}/lsn",
            parallel=plan.parallel,
            compress_threads=plan.compress_threads if plan.compresses_itself else 0,
        ),
    )


#: One stage before the link. Both statuses count, and messages of both go to the backup's log. $1 threads  $2 compressor  then the tool
COMPRESSED = 'threads=$1 zstd=$2; shift 2; set -o pipefail; "$@" | "$zstd" -q -1 -c -T"$threads"'


def sent_command(plan: Plan, flavor: Flavor, directory: str) -> list[str]:
    """Return the command whose output is sent: the backup tool, or a shell that pipes it to zstd. ``directory``: the run directory."""
    tool = backup_command(plan, flavor, directory)
    if not plan.pipe_threads:
        return tool
    return ["bash", "-c", COMPRESSED, "compressed", str(plan.pipe_threads), plan.programs["source.compress"], *tool]


def expand_words(plan: Plan) -> list[str]:
    """Return the command that expands on the target what the pipe compressed on the source; empty without compression."""
    return [plan.programs["target.expand"], "-q", "-d", "-c"] if plan.pipe_threads else []


def unpack_command(plan: Plan, flavor: Flavor) -> list[str]:
    threads = plan.unpack_threads or plan.parallel
    return flavor.unpack_command(
        plan.programs["target.unpack"], plan.target.datadir, parallel=threads, expand=plan.compresses_itself
    )


def prepare_command(plan: Plan, flavor: Flavor, *, memory_bytes: int | None = None) -> list[str]:
    """Return the command that applies the redo log, with the plan's memory, or ``memory_bytes`` if less is free by now."""
    return flavor.prepare_command(
        plan.programs["target.backup"],
        plan.target.datadir,
        memory_bytes=plan.prepare_memory_bytes if memory_bytes is None else memory_bytes,
        options=plan.prepare_options,
    )


#: The target's data is already moved aside when the stream runs: a link that fails for some seconds must not end it.
STREAM_ATTEMPTS = 5


def transport_command(plan: Plan, *, directory: str, address: str, attempts: int = STREAM_ATTEMPTS) -> list[str]:
    """Return the ssh command on the target, without the final word for the forced command."""
    return ssh_command(
        address=address,
        port=plan.source.ssh_port,
        user=plan.source.ssh_user,
        bind_address=plan.target.local_address,
        ciphers=plan.cipher,
        directory=directory,
        attempts=attempts,
        certificate_name=plan.source.certificate_name,
        dead_after_seconds=PAUSED_DEAD_AFTER_SECONDS if plan.pause_source else DEAD_AFTER_SECONDS,
    )


def pull_command(run: Run, *, attempts: int = STREAM_ATTEMPTS) -> list[str]:
    """Return the ssh command on the target of this run, without the final word for the forced command."""
    return transport_command(
        run.plan, directory=run.target.jobs.run_directory, address=run.source.stream_address, attempts=attempts
    )


def known_hosts_line(side: InstanceHandle) -> str:
    """Return the known_hosts of the other host: the pinned key for the address that it uses, or the CAs of the host's certificate."""
    if side.party.certificate_name:
        return side.authorities.known_hosts(side.party.certificate_name)
    return known_host(side.stream_address, side.party.ssh_port, side.host_key)


def from_addresses(side: InstanceHandle) -> str:
    """Return the addresses that may use the run's key."""
    return allowed_from(side.party.local_address, side.party.ssh_address)


def split_command(command: str) -> list[str]:
    """Return a start or stop command as a list. The inventory accepts only commands that split.

    Raises:
        ValueError: a quote is not closed.
    """
    return shlex.split(command)
