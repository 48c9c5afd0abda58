"""An SSH account with the generated sudoers file alone, on a real sshd with the real sudo."""

import os
import shlex
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import paramiko
import pytest

from dbops.drivers.gate import DIRECTORY, SEARCH_PATH, Gate
from dbops.drivers.ssh import SshShell
from dbops.drivers.ssh_transport import SshAddress, load_private_key
from dbops.engine.errors import NoAccess
from dbops.engine.hosts.host_keys import parse_host_key
from dbops.security.gate_key import gate_key
from dbops.security.keys import make_signing_key
from lab.sshd import Sshd, make_key, public_key
from tests.drivers.worlds import end_sessions, make_real
from tests.networks import free_network
from tests.run_folder import new_folder
from tests.sudo_account import account, installed, why_not

pytestmark = [pytest.mark.services, pytest.mark.skipif(bool(why_not()), reason=why_not())]


@dataclass(frozen=True)
class World:
    address: SshAddress
    gate: Gate

    def try_as_account(self, command: str, stdin: bytes | Callable[[bytes], bytes] = b"") -> tuple[int, bytes, bytes]:
        """Run a command as a thief of the SSH key; ``stdin`` can answer its first line. Return status and both outputs."""
        transport = paramiko.Transport((self.address.address, self.address.port))
        try:
            transport.connect(username=self.address.user, pkey=load_private_key(self.address.private_key))
            channel = transport.open_session(timeout=10)
            channel.settimeout(20)
            channel.exec_command(command)
            first = b""
            if callable(stdin):
                while not first.endswith(b"\n") and (byte := channel.recv(1)):
                    first += byte
                stdin = stdin(first)
            channel.sendall(stdin)
            channel.shutdown_write()
            out = b"".join(iter(lambda: channel.recv(65536), b""))
            err = b"".join(iter(lambda: channel.recv_stderr(65536), b""))
            return channel.recv_exit_status(), out, err
        finally:
            transport.close()

    def answer(self, reply: Callable[[str], bytes], *, words: str = "") -> tuple[int, bytes, bytes]:
        """Run the gate by hand, and answer its challenge."""
        return self.try_as_account(
            f"sudo -n -- {self.gate.path} {words}", lambda first: reply(first.decode().split()[1])
        )


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    folder = new_folder("gate")
    sshd = Sshd(folder, f"{free_network()}.11", 2222, folder / "log")
    make_key(folder / "id", "test")
    sshd.prepare(public_key(folder / "id"))
    sshd.authorized_keys.chmod(0o644)
    with account() as name:
        gate = Gate(parse_host_key(sshd.host_key).line, gate_key(make_signing_key()))
        sshd.start()
        try:
            with installed(gate.path, gate.program(), gate.sudoers(name)):
                key = (folder / "id").read_text()
                yield World(SshAddress(sshd.address, sshd.port, name, key, gate.host_key, gate), gate)
        finally:
            sshd.stop()


@pytest.fixture
def shell(world: World) -> Iterator[SshShell]:
    shell = SshShell(world.address)
    yield shell
    shell.close()


def refusal(address: SshAddress) -> NoAccess:
    shell = SshShell(address)
    try:
        with pytest.raises(NoAccess) as caught:
            shell.run("true")
    finally:
        shell.close()
    return caught.value


class TestSignedCommands:
    def test_gate_runs_a_script_as_root_with_its_words_and_input(self, shell: SshShell) -> None:
        hostile = ["a'b", 'c"d\\', "$(id)", "", "-n", "é\n*\n", " \t"]
        done = shell.run('id -u; printf "[%s]" "$@"; cat; echo no >&2; exit 7', *hostile, stdin=bytes(range(256)))
        words = "".join(f"[{word}]" for word in hostile)
        assert done.exit_status == 7
        assert done.stdout.startswith(f"0\n{words}\0\x01")
        assert done.stderr == "no\n"

    def test_gate_passes_large_input(self, shell: SshShell) -> None:
        assert shell.run("wc -c", stdin=os.urandom(700_000)).stdout.strip() == "700000"

    def test_script_gets_no_input_if_there_is_none(self, shell: SshShell) -> None:
        assert shell.run("cat; echo end").stdout == "end\n"

    def test_commands_do_not_get_the_accounts_environment(self, world: World) -> None:
        _, out, _ = world.try_as_account(
            f"cd /tmp; PATH=/tmp:$PATH BASH_ENV=/tmp/x OPENSSL_CONF=/tmp/x HOME=/tmp LD_PRELOAD=/tmp/x.so sudo -n -- {world.gate.path}",
            lambda first: world.gate.message(first.decode().split()[1], "env", b""),
        )
        found = dict(line.split("=", 1) for line in out.decode().splitlines())
        assert found["PATH"] == SEARCH_PATH
        assert (found["HOME"], found["PWD"]) == ("/root", "/")
        assert not found.keys() & {"BASH_ENV", "OPENSSL_CONF", "LD_PRELOAD"}

    @pytest.mark.parametrize("interpreter", ["/bin/bash", "/bin/busybox sh"])
    def test_gate_works_with_other_shells(self, world: World, interpreter: str) -> None:
        other = replace(world.gate, key=gate_key(make_signing_key()))
        program = other.program().replace("#!/bin/sh", f"#!{interpreter}", 1)
        with installed(other.path, program, other.sudoers(world.address.user)):
            shell = SshShell(replace(world.address, gate=other))
            assert shell.run('id -u; cat; echo "$1"', "é'", stdin=b"in ").stdout == "0\nin é'\n"
            shell.close()
            wrong = replace(other, host_key="ssh-ed25519 AAAA")
            status, out, _ = world.try_as_account(
                f"sudo -n -- {other.path}", lambda first: wrong.message(first.decode().split()[1], "id", b"")
            )
            assert (status, out) == (97, b"")

    def test_rules_of_the_site_do_not_get_in_the_way(self, world: World, shell: SshShell, tmp_path: Path) -> None:
        site = f"Defaults:{world.address.user} requiretty, use_pty, log_input, log_output, iolog_dir={tmp_path}\n"
        with installed(f"{DIRECTORY}/dbops-a-site", "", site):  # before the gate's file by its name
            assert shell.run("id -u", stdin=b"secret").stdout == "0\n"
        assert list(tmp_path.iterdir()) == []

    def test_jobs_run_detached(self, shell: SshShell, tmp_path: Path) -> None:
        work = new_folder("gate-work")
        jobs = make_real(shell, work)()
        try:
            jobs.start("long", "sleep 0.5; id -u; cat secret", secrets={"secret": "hidden"})
            shell.close()  # the job survives its connection
            state = jobs.follow("long", 20)
            assert (state.exit_status, state.tails["out"]) == (0, "0\nhidden")
            assert jobs.act("cat; pwd", stdin=b"in ").stdout == f"in {jobs.run_directory}\n"
        finally:
            end_sessions(work)


class TestThief:
    """Who has the SSH key, or the whole account, gets no command of root's."""

    @pytest.mark.parametrize("command", ["id", "bash -c id", "sh -c id", "-i", "-s", "cat /etc/shadow", "-u mysql id"])
    def test_sudo_refuses_any_other_command(self, world: World, command: str) -> None:
        status, out, err = world.try_as_account(f"sudo -n {command}")
        assert (status, out) == (1, b"")
        assert err.startswith(b"sudo: ")

    @pytest.mark.parametrize("words", ["id", "sh -c id", "serve", "serve id", "serve /etc/shadow x", "serve / x y"])
    def test_gate_refuses_words(self, world: World, words: str) -> None:
        assert world.try_as_account(f"sudo -n -- {world.gate.path} {words}")[:2] == (97, b"")

    def test_account_cannot_write_the_gate(self, world: World) -> None:
        for path in (world.gate.path, f"/etc/sudoers.d/{world.gate.name}"):
            assert world.try_as_account(f"echo x >>{path} || exit 3")[0] == 3

    def test_unsigned_text_is_refused(self, world: World) -> None:
        for signature in (b"", b"AAAA", b"not base64"):
            status, out, _ = world.answer(lambda _, signature=signature: signature + b"\nid\n")  # type: ignore[misc]
            assert (status, out) == (97, b"")

    def test_key_of_another_dashboard_is_refused(self, world: World) -> None:
        other = replace(world.gate, key=gate_key(make_signing_key()))
        assert world.answer(lambda challenge: other.message(challenge, "id", b""))[:2] == (97, b"")

    @pytest.mark.parametrize(("old", "new"), [(b"exec id", b"exec sh"), (b"id", b"id;id"), (b"# ", b"#")])
    def test_changed_script_is_refused(self, world: World, old: bytes, new: bytes) -> None:
        def reply(challenge: str) -> bytes:
            signature, _, text = world.gate.message(challenge, "id", b"").partition(b"\n")
            return signature + b"\n" + text.replace(old, new)

        assert world.answer(reply)[:2] == (97, b"")

    def test_other_arguments_and_input_are_refused(self, world: World) -> None:
        def reply(challenge: str, old: bytes, new: bytes) -> bytes:
            message = world.gate.message(
                challenge, shlex.join(["sh", "-c", 'echo "$1"; cat', "dbops", "plan"]), b"input"
            )
            assert old in message
            return message.replace(old, new)

        good = world.answer(lambda challenge: reply(challenge, b"plan", b"plan"))
        assert good[:2] == (0, b"plan\ninput")
        for old, new in ((b"plan", b"/etc"), (b"aW5wdXQ=", b"b3RoZXI=")):
            status, out, _ = world.answer(lambda challenge, old=old, new=new: reply(challenge, old, new))  # type: ignore[misc]
            assert (status, out) == (97, b"")

    def test_recorded_command_is_refused(self, world: World) -> None:
        seen: list[bytes] = []

        def reply(challenge: str) -> bytes:
            seen.append(seen[0] if seen else world.gate.message(challenge, "id -u", b""))
            return seen[-1]

        assert world.answer(reply)[:2] == (0, b"0\n")
        assert world.answer(reply)[:2] == (97, b"")

    def test_command_for_another_host_is_refused(self, world: World) -> None:
        other = replace(world.gate, host_key="ssh-ed25519 AAAA")
        assert world.answer(lambda challenge: other.message(challenge, "id", b""))[:2] == (97, b"")

    def test_serve_runs_nothing_that_the_account_has_written(self, world: World) -> None:
        place = new_folder("served") / "rebuilds" / "run"
        place.mkdir(parents=True)
        for name, text in (("serve", "id"), ("backup.argv", "id\0")):
            (place / name).write_text(text)
        served = f"sudo -n -- {world.gate.path} serve {place}/serve check"
        status, out, _ = world.try_as_account(served)
        assert (status, out.split(b"(")[0]) == (0, b"uid=0")  # what root has put there
        for owned in (place, place.parent):
            subprocess.run(["chown", world.address.user, owned], check=True)
            assert world.try_as_account(served)[:2] == (97, b"")
            subprocess.run(["chown", "root", owned], check=True)
        link = new_folder("link") / "rebuilds"
        link.symlink_to(place.parent)
        subprocess.run(["chown", "-h", world.address.user, link, link.parent], check=True)
        place.chmod(0o777)
        assert world.try_as_account(f"sudo -n -- {world.gate.path} serve {link}/run/serve check")[:2] == (97, b"")


class TestOutdated:
    def test_gate_of_another_dashboard_is_named(self, world: World) -> None:
        other = replace(world.gate, key=gate_key(make_signing_key()))
        with installed(other.path, world.gate.program(), other.sudoers(world.address.user)):
            assert refusal(replace(world.address, gate=other)).code == "ssh.gate_refused"

    def test_gate_of_another_version_is_named(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("dbops.drivers.gate.VERSION", "2")
        assert refusal(world.address).code == "ssh.gate_refused"

    def test_missing_gate_is_named(self, world: World) -> None:
        other = replace(world.gate, key=gate_key(make_signing_key()))
        assert refusal(replace(world.address, gate=other)).code == "ssh.sudo_refused"

    def test_missing_openssl_is_named(self, world: World) -> None:
        other = replace(world.gate, key=gate_key(make_signing_key()))
        with installed(other.path, other.program("/nowhere"), other.sudoers(world.address.user)):
            assert refusal(replace(world.address, gate=other)).code == "ssh.gate_refused"

    def test_any_command_still_works_without_a_gate(self, world: World) -> None:
        other = replace(world.gate, key=gate_key(make_signing_key()))
        user = world.address.user
        with installed(f"{other.path}-unused", "", f"{user} ALL=(root) NOPASSWD: ALL\n"):
            shell = SshShell(replace(world.address, gate=other))
            assert shell.run('id -u; cat; echo "$1"', "a'b", stdin=b"in ").stdout == "0\nin a'b\n"
            shell.close()
