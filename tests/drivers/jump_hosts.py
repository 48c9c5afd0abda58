"""Real jump hosts: an sshd each, on a port of its own, that forwards connections and runs nothing."""

import getpass
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dbops.drivers.ssh_transport import SshAddress
from tests.drivers.conftest import ADDRESS, keygen, wait_for_port

PROGRAM = shutil.which("sshd", path="/usr/sbin:/usr/bin") or "/usr/sbin/sshd"


@dataclass
class JumpHost:
    """One sshd. ``forwarding``: of ``AllowTcpForwarding``."""

    name: str
    folder: Path
    port: int
    forwarding: str = "local"
    process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def logins(self) -> int:
        return self.log.read_text().count("Accepted publickey")

    def address(self, jump: SshAddress | None = None) -> SshAddress:
        key, host_key = (self.folder / "user").read_text(), " ".join((self.folder / "host.pub").read_text().split()[:2])
        return SshAddress(ADDRESS, self.port, getpass.getuser(), key, host_key, jump=jump, name=self.name)

    def start(self) -> None:
        config = self.folder / "sshd_config"
        config.write_text(
            f"HostKey {self.folder}/host\nListenAddress {ADDRESS}\nPort {self.port}\nPidFile none\nUsePAM no\n"
            f"AuthorizedKeysFile {self.folder}/user.pub\nStrictModes no\nPasswordAuthentication no\n"
            f"AllowTcpForwarding {self.forwarding}\nForceCommand /bin/false\nMaxStartups 100\nMaxSessions 1\n"
        )
        with self.log.open("a") as log:
            self.process = subprocess.Popen([PROGRAM, "-D", "-e", "-f", config], stderr=log, stdin=subprocess.DEVNULL)
        wait_for_port(self.port)

    def sessions(self) -> list[int]:
        """Return the processes that serve logins."""
        assert self.process is not None
        found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, text=True)
        return [int(pid) for pid in found.stdout.split()]

    def stop(self) -> None:
        """End the sshd and every login of it."""
        if self.process is None:
            return
        sessions = self.sessions()
        self.process.kill()
        self.process.wait(60)
        self.process = None
        for pid in sessions:
            subprocess.run(["kill", "-9", str(pid)], check=False, capture_output=True)


@contextmanager
def jump_host(folder: Path, name: str, port: int, forwarding: str = "local") -> Iterator[JumpHost]:
    own = folder / name
    own.mkdir(mode=0o700)
    keygen(own / "host")
    keygen(own / "user")
    made = JumpHost(name, own, port, forwarding)
    made.start()
    try:
        yield made
    finally:
        made.stop()
