"""SSH against a real sshd; what any shell must do is asked of the fake as well."""

import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from dbops.drivers.ssh import SshShell
from dbops.drivers.ssh_jumps import fetch_host_key
from dbops.drivers.ssh_transport import SshAddress, check_private_key
from dbops.engine.errors import DbopsError, NoAccess, Refused, Unreachable
from dbops.engine.hosts.host_keys import fingerprint_of
from dbops.engine.ports import Shell
from tests.drivers.conftest import ADDRESS, SSH_PORT, Sshd, chosen_shell, keygen

HOSTILE = [
    "",
    " ",
    "a'b",
    'a"b',
    "a;id",
    "a\nb",
    "$(id)",
    "`id`",
    "${HOME}",
    "*",
    "-n",
    "\\",
    "ü€",
    "a\tb",
    "!x",
    "%s \\0101",
    "~",
    "&&",
]


SERVICES = pytest.mark.services


@pytest.fixture(params=["fake", pytest.param("ssh", marks=SERVICES), pytest.param("csh", marks=SERVICES)])
def any_shell(request: pytest.FixtureRequest) -> Shell:
    return chosen_shell(request)


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that takes connections and never says a word."""
    with socket.socket() as listener:
        listener.bind((ADDRESS, 0))
        listener.listen()
        yield listener.getsockname()[1]


def refusal(address: SshAddress, **options: float) -> DbopsError:
    shell = SshShell(address, **options)  # type: ignore[arg-type]
    try:
        with pytest.raises(DbopsError) as caught:
            shell.run("true")
    finally:
        shell.close()
    return caught.value


class TestEveryShell:
    def test_run_returns_both_outputs_and_the_status(self, any_shell: Shell) -> None:
        result = any_shell.run('echo "out $1"; echo err >&2; exit 3', "x")
        assert (result.exit_status, result.stdout, result.stderr) == (3, "out x\n", "err\n")

    def test_run_passes_arguments_unchanged(self, any_shell: Shell) -> None:
        result = any_shell.run(r'for word in "$@"; do printf "%s\0" "$word"; done', *HOSTILE)
        assert result.stdout.split("\0")[:-1] == HOSTILE

    def test_run_refuses_a_nul_byte(self, any_shell: Shell) -> None:
        with pytest.raises(Refused) as caught:
            any_shell.run("true", "a\0b")
        assert caught.value.code == "ssh.nul_byte"

    def test_run_passes_standard_input(self, any_shell: Shell) -> None:
        assert any_shell.run("wc -c", stdin=b"x" * 3_000_000, timeout_seconds=30).stdout.strip() == "3000000"

    def test_run_ignores_unread_input(self, any_shell: Shell) -> None:
        assert any_shell.run("exit 4", stdin=b"x" * 300_000).exit_status == 4

    def test_run_has_no_status_for_a_killed_command(self, any_shell: Shell) -> None:
        assert any_shell.run("kill -9 $$").exit_status is None

    def test_run_times_out_and_can_be_used_again(self, any_shell: Shell) -> None:
        before = time.monotonic()
        with pytest.raises(Unreachable) as caught:
            any_shell.run("exec sleep 60", timeout_seconds=0.7)
        assert caught.value.code == "ssh.timeout"
        assert time.monotonic() - before < 30
        assert any_shell.run("echo again").stdout == "again\n"


@pytest.mark.services
class TestHostKeys:
    def test_unknown_host_key_is_refused_with_its_fingerprint(self, sshd: Sshd) -> None:
        error = refusal(sshd.address)
        assert isinstance(error, NoAccess)
        assert error.code == "ssh.host_key_unknown"
        assert error.cause == f"ssh-ed25519 {sshd.host_key('ed25519').fingerprint}"

    def test_changed_host_key_is_refused(self, sshd: Sshd) -> None:
        keygen(sshd.folder / "other")
        error = refusal(replace(sshd.address, host_key=(sshd.folder / "other.pub").read_text()))
        assert isinstance(error, NoAccess)
        assert error.code == "ssh.host_key_changed"
        assert sshd.host_key("ed25519").fingerprint in error.cause

    def test_missing_pinned_key_type_is_a_changed_key(self, sshd: Sshd) -> None:
        keygen(sshd.folder / "wide", "ecdsa", "-b", "521")
        error = refusal(replace(sshd.address, host_key=(sshd.folder / "wide.pub").read_text()))
        assert error.code == "ssh.host_key_changed"
        assert "ecdsa-sha2-nistp521" in error.cause

    @pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
    def test_any_host_key_can_be_pinned(self, sshd: Sshd, kind: str) -> None:
        shell = SshShell(sshd.pinned(kind))
        assert shell.run("echo in").stdout == "in\n"
        shell.close()

    def test_host_key_is_fetched_without_a_login(self, sshd: Sshd) -> None:
        key = fetch_host_key(ADDRESS, SSH_PORT)
        assert key == sshd.host_key("ed25519")
        assert fingerprint_of(key.line) == key.fingerprint

    def test_invalid_pinned_key_is_refused(self, sshd: Sshd) -> None:
        assert refusal(replace(sshd.address, host_key="ssh-ed25519 rubbish")).code == "ssh.bad_host_key"


@pytest.mark.services
class TestConnecting:
    def test_unknown_private_key_fails(self, sshd: Sshd) -> None:
        error = refusal(replace(sshd.pinned(), private_key=(sshd.folder / "stranger").read_text()))
        assert isinstance(error, NoAccess)
        assert error.code == "ssh.auth_failed"

    @pytest.mark.parametrize(
        "text", ["", "x", "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----"]
    )
    def test_invalid_private_key_is_refused(self, sshd: Sshd, text: str) -> None:
        assert refusal(replace(sshd.pinned(), private_key=text)).code == "ssh.bad_key"

    def test_check_private_key_returns_the_fingerprint_of_its_public_half(self, sshd: Sshd) -> None:
        text, line = (sshd.folder / "user").read_text(), (sshd.folder / "user.pub").read_text()
        assert check_private_key(text) == fingerprint_of(line)

    def test_private_key_is_in_no_repr(self, sshd: Sshd) -> None:
        assert "PRIVATE" not in repr(sshd.address)

    def test_closed_port_is_unreachable(self, sshd: Sshd) -> None:
        error = refusal(replace(sshd.pinned(), port=1))
        assert isinstance(error, Unreachable)
        assert error.code == "ssh.unreachable"

    def test_unknown_host_name_is_unreachable(self, sshd: Sshd) -> None:
        assert refusal(replace(sshd.pinned(), address="no-such-host.invalid")).code == "ssh.unreachable"

    def test_silent_port_times_out_soon(self, sshd: Sshd, silent_port: int) -> None:
        before = time.monotonic()
        error = refusal(replace(sshd.pinned(), port=silent_port), connect_timeout_seconds=1.0)
        assert error.code == "ssh.unreachable"
        assert time.monotonic() - before < 12

    def test_connect_times_out_when_packets_are_dropped(self, sshd: Sshd) -> None:
        """A full backlog: the kernel drops what comes, as a firewall does."""
        with socket.socket() as listener:
            listener.bind((ADDRESS, 0))
            listener.listen(0)
            waiting = [socket.socket() for _ in range(4)]
            for item in waiting:
                item.setblocking(False)
                item.connect_ex(listener.getsockname())
            before = time.monotonic()
            error = refusal(replace(sshd.pinned(), port=listener.getsockname()[1]), connect_timeout_seconds=1.0)
            assert error.code == "ssh.unreachable"
            assert time.monotonic() - before < 12
            for item in waiting:
                item.close()


@pytest.mark.services
class TestOneConnection:
    def test_connection_is_reused(self, shell: SshShell) -> None:
        first = shell.run("echo $SSH_CONNECTION").stdout
        assert shell.run("echo $SSH_CONNECTION").stdout == first

    def test_lost_connection_has_no_status_and_reconnects(self, shell: SshShell) -> None:
        first = shell.run("echo $SSH_CONNECTION").stdout
        assert shell.run('kill -9 "$PPID"; sleep 5').exit_status is None
        assert shell.run("echo $SSH_CONNECTION").stdout not in ("", first)

    def test_connection_is_reopened_when_it_died_between_commands(self, shell: SshShell) -> None:
        shell.run('(sleep 0.2; kill -9 "$1") </dev/null >/dev/null 2>&1 &', shell.run("echo $PPID").stdout.strip())
        time.sleep(0.5)
        assert shell.run("echo back").stdout == "back\n"

    def test_flood_on_stderr_does_not_block(self, shell: SshShell) -> None:
        result = shell.run("head -c 6000000 /dev/zero | tr '\\0' x >&2; echo ok", timeout_seconds=30)
        assert (result.exit_status, result.stdout) == (0, "ok\n")
        assert len(result.stderr) < 4_200_000
        assert result.stderr.endswith("of 6000000 bytes kept]")

    def test_flood_on_stdout_does_not_block(self, shell: SshShell) -> None:
        result = shell.run("head -c 6000000 /dev/zero | tr '\\0' x; echo note >&2", timeout_seconds=30)
        assert result.stderr == "note\n"
        assert result.stdout.endswith("of 6000004 bytes kept]") or result.stdout.endswith("of 6000000 bytes kept]")

    def test_threads_share_one_connection_in_turn(self, shell: SshShell) -> None:
        answers: dict[int, str] = {}

        def ask(number: int) -> None:
            answers[number] = shell.run('echo "$1"', str(number)).stdout.strip()

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == {number: str(number) for number in range(8)}

    def test_sudo_runs_every_script_as_root(self, sshd: Sshd) -> None:
        shell = SshShell(sshd.with_sudo())
        assert shell.run('echo "$UNDER_SUDO"; echo "$1" "$UNDER_SUDO"', "a'b").stdout == "1\na'b 1\n"
        shell.close()

    def test_sudo_with_password_is_refused(self, sshd: Sshd) -> None:
        (sshd.folder / "forbid").touch()
        try:
            error = refusal(sshd.with_sudo())
            assert isinstance(error, NoAccess)
            assert error.code == "ssh.sudo_refused"
        finally:
            (sshd.folder / "forbid").unlink()
