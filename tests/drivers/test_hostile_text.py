"""Any text in what reaches a shell arrives byte for byte, or is refused; nothing of it is ever run."""

import getpass
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from dbops.drivers.jobs import HostJobs
from dbops.drivers.quoting import quote
from dbops.drivers.ssh import SshShell
from dbops.engine.errors import Refused
from dbops.engine.flavors.optionfile import LONGEST_LINE_BYTES, credentials_text
from dbops.engine.flavors.tool_options import NO_TOOL
from dbops.engine.hosts.jobs import IN_BASH
from dbops.engine.hosts.scripts import load
from dbops.engine.hosts.ssh import show
from dbops.engine.ports import JobStatus, Shell
from dbops.engine.rebuilds.steps.commands import split_command
from tests import run_folder
from tests.drivers.conftest import ADDRESS, SSH_PORT, Sshd
from tests.fakes import FakeShell
from tests.hostile.texts import CANARY, PAYLOADS, names, one_line, texts

#: over a real connection an example takes too long to look for a smaller one
NO_SHRINKING = (Phase.explicit, Phase.generate)
ECHO = "printf '%s\\0' \"$@\""
words = st.lists(texts, min_size=1, max_size=5)


@contextmanager
def empty_folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="dbops-text-", dir=run_folder.parent()) as folder:
        yield Path(folder)


def split(output: bytes) -> list[str]:
    return output.decode().split("\0")[:-1]


def run_in(shell: str, command: str) -> list[str]:
    """Run a command line in an empty directory, in which nothing may appear."""
    with empty_folder() as folder:
        done = subprocess.run([shell, "-c", command], cwd=folder, capture_output=True, check=True)
        assert not list(folder.iterdir())
    return split(done.stdout)


@pytest.mark.parametrize("shell", ["sh", "bash"])
@given(words)
@example(list(PAYLOADS))
def test_quoted_words_arrive_unchanged(shell: str, given_words: list[str]) -> None:
    assert run_in(shell, "printf '%s\\0' " + quote(given_words)) == given_words


@given(words)
def test_shown_command_runs_as_written(given_words: list[str]) -> None:
    """A person may copy a command from the page."""
    assert run_in("bash", "printf '%s\\0' " + show(given_words)) == given_words


@given(texts, texts)
def test_nul_byte_is_refused(before: str, after: str) -> None:
    with pytest.raises(Refused):
        quote([f"{before}\0{after}"])


@pytest.mark.parametrize("payload", PAYLOADS[:2])
def test_weakened_quoting_is_detected(payload: str) -> None:
    """The negative control: double quotes instead of ours."""
    with pytest.raises(AssertionError):
        run_in("sh", f"printf '%s\\0' \"{payload}\"")


def over(shell: Shell, folder: Path) -> HostJobs:
    return HostJobs(shell, work_dir=str(folder), instance_key="db1", run_id="run-1", token=1, dashboard="dashboard-1")


def no_canary(*folders: Path) -> bool:
    return not any(list(folder.rglob(CANARY)) for folder in folders)


@given(words, names)
@settings(max_examples=20)
def test_script_arguments_are_only_text(given_words: list[str], name: str) -> None:
    with empty_folder() as folder:
        done = over(FakeShell(runs_here=True), folder / name).act(IN_BASH, ECHO, *given_words)
        assert split(done.stdout.encode()) == given_words
        assert no_canary(folder, Path.cwd())


@given(words, names)
@settings(max_examples=8)
def test_job_arguments_and_secrets_are_only_text(given_words: list[str], name: str) -> None:
    with empty_folder() as folder:
        jobs = over(FakeShell(runs_here=True), folder / name)
        script = f"{ECHO} >log.arguments; cp secret.cnf log.secret; pwd >log.where"
        jobs.start("says", script, *given_words, secrets={"secret.cnf": given_words[0]})
        while (state := jobs.follow("says", wait_seconds=5)).status is JobStatus.RUNNING:
            pass
        assert state.exit_status == 0
        assert split(jobs.read("says", "arguments")) == given_words
        assert jobs.read("says", "secret").decode() == given_words[0]
        assert no_canary(folder, Path.cwd())


@pytest.mark.services
def test_words_arrive_over_ssh(shell: SshShell) -> None:
    home = Path.home()

    @given(words)
    @example(list(PAYLOADS))
    @settings(max_examples=15, phases=NO_SHRINKING)
    def arrive(given_words: list[str]) -> None:
        assert split(shell.run(ECHO, *given_words).stdout.encode()) == given_words

    arrive()
    assert not (home / CANARY).exists()


@given(one_line)
@settings(max_examples=25)
def test_known_hosts_line_is_written_unchanged(line: str) -> None:
    with empty_folder() as folder:
        (folder / "key").write_text("a key is there already")
        (folder / "key.pub").write_text("ssh-ed25519 AAAA\n")
        command = ["bash", "-c", load("make_key"), "dbops", "run-1", line]
        done = subprocess.run(command, cwd=folder, capture_output=True, check=True)
        assert (folder / "known_hosts").read_bytes() == f"{line}\n".encode()
        assert done.stdout == b"ssh-ed25519 AAAA\n"
        assert no_canary(folder)


@given(words)
def test_split_command_keeps_words(given_words: list[str]) -> None:
    assert split_command(show(given_words)) == given_words


# --- the forced command of a run's key, through a real sshd -----------------------------------------------------------
def let_in(sshd: Sshd, run_directory: Path, *, sudo: bool, command: list[str]) -> None:
    """Let the user's key in for this run alone, as the step does."""
    subprocess.run(
        [
            "bash",
            "-c",
            load("common", "tool_options", "release", "open_source"),
            "dbops",
            "run-1",
            " ".join((sshd.folder / "stranger.pub").read_text().split()[:2]) + " dbops-run-1",
            ADDRESS,
            "600",
            str(sshd.folder / "authorized_keys"),
            getpass.getuser(),
            "1" if sudo else "0",
            "",
            *NO_TOOL,
            *command,
        ],
        cwd=run_directory,
        input=f"[client]\n----\n{load('serve')}",
        text=True,
        check=True,
        capture_output=True,
    )


def ask(sshd: Sshd, word: str) -> subprocess.CompletedProcess[str]:
    options = ["-F", "/dev/null", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
    options += ["-o", "BatchMode=yes", "-o", "LogLevel=ERROR", "-o", "IdentitiesOnly=yes", "-b", ADDRESS]
    command = ["ssh", *options, "-i", sshd.folder / "stranger", "-p", str(SSH_PORT), ADDRESS, word]
    return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


@pytest.fixture
def keys_as_they_were(sshd: Sshd) -> Iterator[None]:
    file = sshd.folder / "authorized_keys"
    before = file.read_text()
    yield
    file.write_text(before)


@pytest.mark.services
@pytest.mark.usefixtures("keys_as_they_were")
@pytest.mark.parametrize("sudo", [False, True])
def test_forced_command_works_with_any_work_directory(sshd: Sshd, sudo: bool) -> None:
    @given(names, words)
    @example("a b", ["sh"])
    @example('it\'s "quoted" \\ and \\" more', ["sh"])
    @example("Größe $(touch canary)", list(PAYLOADS))
    @settings(max_examples=6, phases=NO_SHRINKING)
    def survive(name: str, command: list[str]) -> None:
        # the stand-in for sudo ends in env, which takes a path with = for a variable; sudo does not
        name = name.replace("=", "-") if sudo else name
        with empty_folder() as folder:
            (folder / name).mkdir()
            let_in(sshd, folder / name, sudo=sudo, command=command)
            answer = ask(sshd, "check")
            assert answer.stdout == "dbops-ready\n", answer.stderr
            assert split((folder / name / "backup.argv").read_bytes()) == command
            assert no_canary(folder)

    survive()
    assert not (Path.home() / CANARY).exists()


@pytest.mark.services
@pytest.mark.usefixtures("keys_as_they_were")
def test_run_key_allows_two_words_only(sshd: Sshd) -> None:
    @given(one_line)
    @example("check; touch canary")
    @settings(max_examples=8, phases=NO_SHRINKING)
    def do_nothing(word: str) -> None:
        if word in ("check", "backup", ""):
            return
        answer = ask(sshd, word)
        assert (answer.returncode, answer.stdout) == (64, "")
        assert no_canary(folder)

    with empty_folder() as folder:
        let_in(sshd, folder, sudo=False, command=["/bin/false"])
        do_nothing()
    assert not (Path.home() / CANARY).exists()


# --- option files -----------------------------------------------------------------------------------------------------
def printed(file: Path, group: str = "client") -> list[str]:
    """Return what the servers' own parser reads."""
    command = ["my_print_defaults", f"--defaults-file={file}", group]
    done = subprocess.run(command, capture_output=True, check=True)
    return done.stdout.decode().split("\n")[:-1]


def refuses(call: Callable[[], object]) -> bool:
    try:
        call()
    except Refused as error:
        return error.code == "credentials.unwritable"
    return False


@given(texts, texts)
@example("\t lead and trail \t", "#;'\"\\ [mysqld] \\n \\s \\")
def test_credentials_text_is_read_back_or_refused(user: str, password: str) -> None:
    cannot = any(character in text for text in (user, password) for character in "\n\r")
    if refuses(lambda: credentials_text(["client"], user, password)):
        assert cannot
        return
    assert not cannot
    with empty_folder() as folder:
        file = folder / "client.cnf"
        file.write_text(credentials_text(["client"], user, password))
        assert printed(file)[:2] == [f"--user={user}", f"--password={password}"]


@pytest.mark.parametrize("length", [1, 1000, LONGEST_LINE_BYTES // 2, LONGEST_LINE_BYTES // 2 + 1, 10_000])
def test_credentials_text_refuses_a_password_that_is_too_long(length: int) -> None:
    password = "\\" * length
    if refuses(lambda: credentials_text(["client"], "u", password)):
        assert length > LONGEST_LINE_BYTES // 2
        return
    with empty_folder() as folder:
        (folder / "client.cnf").write_text(credentials_text(["client"], "u", password))
        assert printed(folder / "client.cnf")[1] == f"--password={password}"
