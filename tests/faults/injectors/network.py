"""Links between two addresses of a lab, cut with iptables.

A lab's hosts have addresses of their own on the loopback device. The target's ssh binds its own address, while the
dashboard's SSH and SQL come from 127.0.0.1, as do the servers' own replication connections: so three links can be distinguished.

Packets are dropped and not refused, as by a dead switch: neither end is notified.
"""

import os
import pwd
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lab.checks import server_user
from lab.hosts import LabHost

DASHBOARD = "127.0.0.1"
#: A rule's comment, with the process that made it: rules of a suite that was killed are found again.
MARK = "dbops-fault"
CHAIN = "OUTPUT"

Rule = tuple[str, ...]


def stream_link(source: LabHost, target: LabHost) -> list[Rule]:
    """Everything between the two hosts: SSH from the target's address, and the target's server replicating from the source."""
    ssh = _both_ways(target.address, source.address, source.ssh_port)
    return ssh + _both_ways(DASHBOARD, source.address, source.port, by="server")


def dashboard_link(host: LabHost) -> list[Rule]:
    """Everything between the dashboard (and this process) and one host: SSH and SQL; replication of other hosts continues."""
    ssh = _both_ways(DASHBOARD, host.address, host.ssh_port)
    return ssh + _both_ways(DASHBOARD, host.address, host.port, by="others")


def _both_ways(client: str, server: str, port: int, *, by: str = "") -> list[Rule]:
    """Rules for the connections of ``client`` to a port. ``by`` is who opened them: the hosts' ``server`` or ``others``.

    Only the packets of the opener carry its user; without them the other direction brings nothing either: nothing that is
    sent is acknowledged.
    """
    there: Rule = ("-p", "tcp", "-s", client, "-d", server, "--dport", str(port))
    back: Rule = ("-p", "tcp", "-s", server, "-d", client, "--sport", str(port))
    if not by:
        return [there, back]
    user = str(pwd.getpwnam(server_user()).pw_uid)
    negation = () if by == "server" else ("!",)
    return [(*there, "-m", "owner", *negation, "--uid-owner", user)]


@contextmanager
def cut(*links: Sequence[Rule]) -> Iterator[None]:
    """Drop what would go over the links until the block ends."""
    rules = [rule for link in links for rule in link]
    try:
        for rule in rules:
            _iptables("-I", CHAIN, *_marked(rule))
        yield
    finally:
        for rule in rules:
            _iptables("-D", CHAIN, *_marked(rule), check=False)


def _marked(rule: Rule) -> Rule:
    return (*rule, "-m", "comment", "--comment", f"{MARK}-{os.getpid()}", "-j", "DROP")


def rules_in_force() -> list[str]:
    """The rules of any process of ours that are in force now, as ``iptables -S`` writes them."""
    return [line for line in _iptables("-S", CHAIN).splitlines() if f"{MARK}-" in line]


def rules_of_this_process() -> list[str]:
    return [rule for rule in rules_in_force() if f"{MARK}-{os.getpid()} " in rule]


def remove_leftovers() -> list[str]:
    """Remove rules whose process is gone: a suite that was killed could not. Return them."""
    removed = []
    for rule in rules_in_force():
        owner = re.search(rf"{MARK}-(\d+)", rule)
        if owner and not os.path.exists(f"/proc/{owner[1]}"):
            _iptables("-D", *shlex.split(rule)[1:], check=False)
            removed.append(rule)
    return removed


def may_cut() -> str:
    """Return why links cannot be cut here, ``""`` where they can."""
    if os.geteuid() != 0:
        return "cutting links needs root"
    try:
        probe: Rule = ("-p", "tcp", "-s", "127.255.255.1", "-d", "127.255.255.2", "-m", "owner", "--uid-owner", "0")
        with cut([probe]):
            return ""
    except (OSError, RuntimeError) as error:
        return str(error)


def _iptables(*words: str, check: bool = True) -> str:
    # -w: another suite may be changing the table at this moment
    done = subprocess.run(["iptables", "-w", "10", *words], capture_output=True, text=True, check=False, timeout=30)
    if check and done.returncode != 0:
        raise RuntimeError(f"iptables {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout
