"""``Jobs`` over any ``Shell``: detached, journaled jobs on a host, with one round trip per call.

``remote/launcher.sh`` is the host's side.
"""

import base64
import binascii
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

from dbops.engine.errors import Bug, Refused, RemoteFailure, Unreachable
from dbops.engine.hosts.scripts import load
from dbops.engine.phrases import phrase
from dbops.engine.ports import CommandResult, Jobs, JobState, JobStatus, Shell

REMOTE = Path(__file__).parent / "remote"
LAUNCHER = load("exchangeable", "login_plugins") + (REMOTE / "launcher.sh").read_text(encoding="utf-8")
WRAPPER = (REMOTE / "wrapper.sh").read_text(encoding="utf-8")

MARKER = "dbops:"
NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")
PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
#: names in a job's directory that the journal uses
RESERVED = re.compile(r"(script|wrapper|end|alive|secrets|(pid|rc|log|stage|counter)(\..*)?)")
#: fields of a counter's line, in this order; the disk fields are optional
COUNTED = ("read_bytes", "write_bytes", "disk_read_bytes", "disk_write_bytes")
ANSWER_SECONDS = 15.0
READ_LIMIT_BYTES = 1024 * 1024

#: launcher errors that the operator must resolve
REFUSALS = {"host.fenced", "host.other_dashboard", "host.work_directory"}
#: temporary launcher errors: a command whose connection was cut still runs, with unknown state until it ends
PASSING = {"host.guarded"}


class HostJobs(Jobs):
    """Jobs of one rebuild on the host of one instance.

    Args:
        shell: connection to the host.
        work_dir: absolute path of dbops's directory on the host; created if missing.
        instance_key: name of the instance on the host, the same for each rebuild; owns the fence and the locks.
        run_id: name of the rebuild.
        token: fence of the caller's lease; it never decreases.
        dashboard: name of this installation, which no other one has. Another one's living run is not disturbed.
    """

    def __init__(
        self, shell: Shell, *, work_dir: str, instance_key: str, run_id: str, token: int, dashboard: str
    ) -> None:
        if not work_dir.startswith("/") or token < 0:
            raise Bug(
                "host.bad_request",
                phrase("Preparing work on a host"),
                cause=phrase("work directory {work_dir}, token {token}", work_dir=repr(work_dir), token=token),
            )
        self.run_directory = f"{work_dir}/rebuilds/{_plain(run_id)}"
        self.shell = shell
        self._place = (work_dir, _plain(instance_key), run_id, str(token), _plain(dashboard))

    def start(
        self, name: str, script: str, *arguments: str, secrets: dict[str, str] | None = None, lock: str = "work"
    ) -> JobState:
        files = {"wrapper": WRAPPER, "script": script}
        for file, content in (secrets or {}).items():
            if RESERVED.fullmatch(_plain(file)):
                raise Bug(
                    "host.bad_request",
                    phrase("Starting {name}", name=name),
                    cause=phrase("{file} is reserved for the journal", file=repr(file)),
                )
            files[file] = content
        stdin = "".join(f"{file} {_base64(content)}\n" for file, content in files.items()) + "end\n"
        return self._state(
            phrase("Starting {name}", name=name), "start", _name(name), _plain(lock), *arguments, stdin=stdin.encode()
        )

    def follow(self, name: str, wait_seconds: float = 0.0, tail_lines: int = 20) -> JobState:
        return self._state(
            phrase("Following {name}", name=name),
            "follow",
            _name(name),
            *_numbers(wait_seconds * 100, tail_lines),
            wait_seconds=wait_seconds,
        )

    def stop(self, name: str, patience_seconds: float = 2.0) -> JobState:
        return self._state(
            phrase("Stopping {name}", name=name),
            "stop",
            _name(name),
            *_numbers(patience_seconds * 100, 20),
            wait_seconds=patience_seconds,
        )

    def read(self, name: str, log: str, offset: int = 0, limit: int = 65536) -> bytes:
        lines = self._ask(
            phrase("Reading the log of {name}", name=name),
            "read",
            _name(name),
            _plain(log),
            *_numbers(offset, min(limit, READ_LIMIT_BYTES)),
        )
        return base64.b64decode("".join(lines[1:]))

    def act(self, script: str, *arguments: str, stdin: bytes = b"", timeout_seconds: float = 20.0) -> CommandResult:
        operation = phrase("Running a command on the host")
        result = self._run("act", script, *arguments, stdin=stdin, timeout_seconds=timeout_seconds)
        before, marker, stdout = result.stdout.partition(f"{MARKER}act\n")
        if not marker:
            self._answer(operation, result)
            self._unexpected(operation, result)
        return CommandResult(result.exit_status, stdout, result.stderr)

    # --- one call -------------------------------------------------------------------------------------------------
    def _run(self, verb: str, *arguments: str, stdin: bytes, timeout_seconds: float) -> CommandResult:
        return self.shell.run(LAUNCHER, verb, *self._place, *arguments, stdin=stdin, timeout_seconds=timeout_seconds)

    def _state(
        self, operation: str, verb: str, *arguments: str, stdin: bytes = b"", wait_seconds: float = 0.0
    ) -> JobState:
        return parse_state(self._ask(operation, verb, *arguments, stdin=stdin, wait_seconds=wait_seconds))

    def _ask(
        self, operation: str, verb: str, *arguments: str, stdin: bytes = b"", wait_seconds: float = 0.0
    ) -> list[str]:
        result = self._run(verb, *arguments, stdin=stdin, timeout_seconds=wait_seconds + ANSWER_SECONDS)
        return self._answer(operation, result)

    def _answer(self, operation: str, result: CommandResult) -> list[str]:
        """Return the answer's lines from the first marker, without the last; a login shell can print text before it."""
        lines = result.stdout.splitlines()
        first = next((number for number, line in enumerate(lines) if line.startswith(MARKER)), None)
        if first is not None and lines[first].startswith(f"{MARKER}error "):
            _, code, text = lines[first].split(" ", 2)
            if code in PASSING:
                raise Unreachable(code, operation, cause=text)
            kind = Refused if code in REFUSALS else RemoteFailure
            raise kind(code, operation, cause=text)
        if first is None or lines[-1] != f"{MARKER}end":
            self._unexpected(operation, result)
        return lines[first:-1]

    def _unexpected(self, operation: str, result: CommandResult) -> NoReturn:
        if result.exit_status is None:
            raise Unreachable(
                "ssh.lost",
                operation,
                cause=phrase("the connection closed before the answer was complete"),
            )
        raise RemoteFailure(
            "host.unexpected_answer",
            operation,
            cause=phrase(
                "exit status {status}: {output}",
                status=result.exit_status,
                output=(result.stderr or result.stdout).strip()[-400:],
            ),
        )


def parse_state(lines: Iterable[str]) -> JobState:
    """Parse the launcher's lines: ``dbops:state STATUS``, then ``started``, ``rc``, ``stage`` and so on."""
    status, words = JobStatus.ABSENT, {}
    stages: dict[str, int] = {}
    counters: dict[str, int] = {}
    tails: dict[str, str] = {}
    for line in lines:
        key, *rest = line.split(" ")
        if key == f"{MARKER}state":
            status = JobStatus(rest[0])
        elif key in ("started", "rc", "ended"):
            words[key] = int(rest[0])
        elif key == "stage" and rest[1].isdigit():
            stages[rest[0]] = int(rest[1])
        elif key == "counter":
            counters |= {f"{rest[0]}.{kind}": int(count) for kind, count in zip(COUNTED, rest[1:], strict=False)}
        elif key == "tail":
            tails[rest[0]] = _text(rest[1])
    return JobState(status, words.get("rc"), stages, counters, tails, words.get("started"), words.get("ended"))


def _text(encoded: str) -> str:
    try:
        return base64.b64decode(encoded).decode("utf-8", "replace")
    except binascii.Error:
        return ""


def _base64(text: str) -> str:
    return base64.b64encode(text.encode("utf-8")).decode("ascii")


def _numbers(*values: float) -> list[str]:
    return [str(max(0, int(value))) for value in values]


def _name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise Bug("host.bad_request", phrase("Validating the name of a job"), cause=repr(name))
    return name


def _plain(name: str) -> str:
    if not PLAIN.fullmatch(name):
        raise Bug("host.bad_request", phrase("Validating a name on a host"), cause=repr(name))
    return name
