"""Commands on one host by SSH.

Measured pitfalls: keepalive never notices a dead peer (hence TCP_USER_TIMEOUT, and a watchdog for a peer that answers
TCP but not SSH); ``exec_command`` and ``recv_exit_status`` wait forever; reading one output after the other hangs when
the window is full; a status of -1 has no meaning.
"""

import threading
from collections.abc import Callable

import paramiko

from dbops.drivers.gate import CHALLENGE, REFUSED_PREFIX, REFUSED_STATUS
from dbops.drivers.quoting import for_any_shell, quote
from dbops.drivers.ssh_jumps import connect
from dbops.drivers.ssh_transport import LOST, Patience, SshAddress, close, unreachable
from dbops.engine.errors import Bug, NoAccess, Unreachable
from dbops.engine.phrases import phrase
from dbops.engine.ports import CommandResult, Shell

OUTPUT_LIMIT_BYTES = 4 * 1024 * 1024
#: Linux limits an argument to 128 KiB, and sshd passes the command to the login shell as one argument
COMMAND_LIMIT_BYTES = 120 * 1024


class SshShell(Shell):
    """``Shell`` over one SSH connection, opened on first use and kept. Concurrent calls wait for each other.

    Args:
        address: address and credentials.
        connect_timeout_seconds: for each of TCP, banner with key exchange, and login.
        keepalive_seconds: between keepalive messages on an idle connection.
        dead_after_seconds: time without acknowledgment of sent data until the kernel closes the connection.
    """

    def __init__(
        self,
        address: SshAddress,
        *,
        connect_timeout_seconds: float = 5.0,
        keepalive_seconds: int = 5,
        dead_after_seconds: float = 10.0,
    ) -> None:
        self.address = address
        self._patience = Patience(connect_timeout_seconds, keepalive_seconds, dead_after_seconds)
        self._transport: paramiko.Transport | None = None
        self._lock = threading.Lock()

    def run(self, script: str, *arguments: str, stdin: bytes = b"", timeout_seconds: float = 10.0) -> CommandResult:
        words = quote(["sh", "-c", script, "dbops", *arguments])
        gate = self.address.gate
        command = for_any_shell(gate.command if gate else f"exec {words}")
        if len((words if gate else command).encode()) > COMMAND_LIMIT_BYTES:
            raise Bug(
                "ssh.command_too_long",
                phrase("Building a command for a host"),
                cause=phrase("{count} characters", count=len(command)),
            )
        answer = (lambda challenge: gate.message(challenge, words, stdin)) if gate else None
        with self._lock:
            exchange = _Exchange(self, command, answer or stdin, timeout_seconds)
            result = exchange.run()
        if gate:
            self._check_root(result, is_root=exchange.is_challenged)
        return result

    def close(self) -> None:
        """Close the connection; the next ``run`` opens a new one. Detached jobs on the host continue."""
        transport, self._transport = self._transport, None
        if transport is not None:
            close(transport)

    def open_channel(self) -> paramiko.Channel:
        """Return a new channel; reconnect once if the kept connection is dead, because nothing ran on it yet."""
        transport = self._transport
        if transport is not None and transport.is_active():
            try:
                return transport.open_session(timeout=self._patience.connect_seconds)
            except LOST:
                self.close()
        self._transport = transport = connect(self.address, self._patience)
        try:
            return transport.open_session(timeout=self._patience.connect_seconds)
        except LOST as error:
            self.close()
            raise unreachable(self.address, error) from None

    def _check_root(self, result: CommandResult, *, is_root: bool) -> None:
        """Raise ``NoAccess`` if sudo or the gate refused. ``is_root``: a command of root's has answered."""
        operation = phrase("Becoming root as {address}", address=self.address.place)
        if not is_root and (said := _line_of(result.stderr, "sudo: ")):
            raise NoAccess("ssh.sudo_refused", operation, cause=said)
        if result.exit_status == REFUSED_STATUS and (said := _line_of(result.stderr, REFUSED_PREFIX)):
            raise NoAccess("ssh.gate_refused", operation, cause=said)


class _Exchange:
    """One command on one channel. At the deadline, a watchdog closes the connection, which ends all waits on it.

    ``stdin``: of the command, or what to answer to its challenge.
    """

    def __init__(
        self, shell: SshShell, command: str, stdin: bytes | Callable[[str], bytes], timeout_seconds: float
    ) -> None:
        self.shell = shell
        self.command = command
        self.stdin = stdin
        self.timeout_seconds = timeout_seconds
        self.timed_out = threading.Event()
        self.is_challenged = False

    def run(self) -> CommandResult:
        channel = self.shell.open_channel()
        watchdog = threading.Timer(self.timeout_seconds, self._give_up)
        watchdog.daemon = True
        watchdog.start()
        try:
            result = self._talk(channel)
        except LOST as error:
            self.shell.close()
            if not self.timed_out.is_set():
                raise unreachable(self.shell.address, error) from None
            result = None
        finally:
            watchdog.cancel()
        if self.timed_out.is_set() or result is None:
            self.shell.close()
            raise Unreachable(
                "ssh.timeout",
                phrase("Waiting for a command on {address}", address=self.shell.address.place),
                cause=phrase("no answer in {seconds} s", seconds=f"{self.timeout_seconds:g}"),
            )
        if result.exit_status is None and (self.shell._transport is None or not self.shell._transport.is_active()):
            self.shell.close()
        return result

    def _give_up(self) -> None:
        self.timed_out.set()
        self.shell.close()

    def _talk(self, channel: paramiko.Channel) -> CommandResult:
        channel.exec_command(self.command)
        stderr, stdout = _Drain(), _Drain()
        reader = threading.Thread(target=stderr.read, args=(channel.recv_stderr,), daemon=True)
        reader.start()
        stdin = self.stdin if isinstance(self.stdin, bytes) else self._answer(channel, self.stdin)
        writer = threading.Thread(target=self._write, args=(channel, stdin), daemon=True)
        writer.start()
        stdout.read(channel.recv)
        reader.join()
        channel.status_event.wait()
        status = channel.exit_status
        channel.close()
        writer.join()
        return CommandResult(None if status == -1 else status, stdout.text(), stderr.text())

    def _answer(self, channel: paramiko.Channel, answer: Callable[[str], bytes]) -> bytes:
        """Wait for the challenge, and return the answer; ``b""`` if the command ended without one."""
        said = b""
        while part := channel.recv(65536):
            said = (said + part)[-OUTPUT_LIMIT_BYTES:]
            if found := CHALLENGE.search(said):
                self.is_challenged = True
                return answer(found[1].decode())
        return b""

    def _write(self, channel: paramiko.Channel, stdin: bytes) -> None:
        try:
            if stdin:
                channel.sendall(stdin)
            channel.shutdown_write()
        except LOST:
            pass  # the command ended without reading all input; its status and output explain why


class _Drain:
    """Read an output completely but keep only its start, so that a flood neither blocks the host nor fills memory."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._kept = 0
        self._seen = 0

    def read(self, receive: Callable[[int], bytes]) -> None:
        while True:
            try:
                part = receive(65536)
            except (OSError, EOFError):
                return
            if not part:
                return
            self._seen += len(part)
            room = OUTPUT_LIMIT_BYTES - self._kept
            if room > 0:
                self._parts.append(part[:room])
                self._kept += len(part[:room])

    def text(self) -> str:
        text = b"".join(self._parts).decode("utf-8", "replace")
        if self._seen > self._kept:
            text += f"\n[cut: {self._kept} of {self._seen} bytes kept]"
        return text


def _line_of(text: str, prefix: str) -> str:
    return next((line[:200] for line in text.splitlines() if line.startswith(prefix)), "")
