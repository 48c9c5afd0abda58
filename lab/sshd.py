"""An sshd with its own host key on its host's address."""

import re
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from lab.checks import find_program, is_root, search_path
from lab.errors import LabError
from lab.processes import children, end, is_running, read_pid, run, send, tail

START_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Sshd:
    """Run one sshd. ``folder`` contains its files; ``log`` is its log file."""

    folder: Path
    address: str
    port: int
    log: Path

    @property
    def config_file(self) -> Path:
        return self.folder / "sshd_config"

    @property
    def host_key_file(self) -> Path:
        return self.folder / "ssh_host_ed25519_key"

    @property
    def authorized_keys(self) -> Path:
        return self.folder / "authorized_keys"

    @property
    def pid_file(self) -> Path:
        return self.folder / "sshd.pid"

    @property
    def programs(self) -> Path:
        """Directory whose programs the host's sessions find before the machine's programs of the same name."""
        return self.folder / "bin"

    @property
    def host_key(self) -> str:
        """The public host key without its comment, as in ``known_hosts``."""
        return public_key(self.host_key_file)

    def prepare(self, client_key: str) -> None:
        """Write key and configuration, and authorize the lab's key. Keep other authorized keys."""
        make_key(self.host_key_file, f"host {self.folder.name}")
        authorized = self.authorized_keys.read_text() if self.authorized_keys.exists() else ""
        if client_key not in authorized:
            self.authorized_keys.write_text(authorized + client_key + " dbops-lab\n")
            self.authorized_keys.chmod(0o600)
        self.config_file.write_text(self.config())

    def config(self) -> str:
        lines = [
            f"Port {self.port}",
            f"ListenAddress {self.address}",
            f"HostKey {self.host_key_file}",
            f"AuthorizedKeysFile {self.authorized_keys}",
            f"PidFile {self.pid_file}",
            "StrictModes no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            f"UsePAM {'yes' if needs_pam() else 'no'}",
            "PermitRootLogin prohibit-password",
            "UseDNS no",
            "MaxStartups 200",
            "MaxSessions 200",
            "LogLevel VERBOSE",
            # a normal user's session would not find servers in /usr/sbin; with SHLVL above 1, bash skips the startup files
            # of the user who runs the lab, which are not part of a lab host
            f"SetEnv PATH={self.programs}:{search_path()} SHLVL=2",
        ]
        if ssh_version() >= (9, 8):  # would refuse all connections from an address after a few failures
            lines.append("PerSourcePenalties no")
        return "\n".join(lines) + "\n"

    def pid(self) -> int | None:
        """Return the listener's process number, ``None`` if it does not run."""
        pid = read_pid(self.pid_file)
        return pid if is_running(pid, str(self.config_file)) else None

    def start(self) -> None:
        if self.pid() is not None:
            return
        if is_root():  # privilege separation directory; missing on a machine without a running sshd
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        program = find_program("sshd")
        if program is None:
            raise LabError("sshd is not installed (package openssh-server)")
        self.pid_file.unlink(missing_ok=True)
        run([program, "-f", str(self.config_file), "-E", str(self.log)])
        deadline = time.monotonic() + START_SECONDS
        while not (self.pid() and self.greets()):
            if time.monotonic() > deadline:
                place = f"{self.address}:{self.port}"
                raise LabError(f"sshd of {self.folder.name} does not answer on {place}:\n{self.log_end()}")
            time.sleep(0.02)

    def stop(self) -> None:
        """End the listener, then its open sessions, which would survive it."""
        pid = self.pid()
        sessions = children(pid) if pid is not None else []
        end(pid, str(self.config_file), what=f"sshd of {self.folder.name}")
        for session in sessions:
            if is_running(session, "sshd"):
                send(session, 15)

    def greets(self) -> bool:
        try:
            with socket.create_connection((self.address, self.port), timeout=2) as connection:
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False

    def log_end(self) -> str:
        return tail(self.log.read_text(errors="replace")) if self.log.exists() else ""


def needs_pam() -> bool:
    """Whether root's password is locked with ``!``: without PAM, sshd refuses such an account even with a key."""
    if not is_root():
        return False
    for line in Path("/etc/shadow").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == "root":
            return rest.startswith("!")
    return False


def ssh_version() -> tuple[int, int]:
    """Return the client's version, which equals the server's: sshd prints its own only since 9.3."""
    match = re.search(r"OpenSSH_(\d+)\.(\d+)", run(["sh", "-c", "ssh -V 2>&1"]))
    return (int(match[1]), int(match[2])) if match else (0, 0)


def make_key(path: Path, comment: str) -> None:
    if not path.exists():
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)])


def public_key(private: Path) -> str:
    return " ".join(private.with_name(private.name + ".pub").read_text().split()[:2])
