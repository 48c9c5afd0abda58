"""How many processes a command starts on a host: each costs a millisecond of a processor, on each database host, in each probe.

A new process namespace counts from 1, so the number of the next process says how many there were.
"""

import os
import subprocess
from pathlib import Path

import pytest

from dbops.drivers.jobs import LAUNCHER
from dbops.drivers.probe_host import SCRIPT, Inspect, parse_records, read_host
from tests.fakes import FakeShell

SPACE = ("unshare", "--fork", "--pid", "--mount-proc", *(() if os.getuid() == 0 else ("--map-root-user",)))
ENVIRONMENT = {**os.environ, "SSH_CONNECTION": "127.0.0.1 1 127.0.0.1 22"}


def run(script: str, *arguments: str) -> tuple[str, int]:
    """Return the output of a script, and how many processes it was."""
    counted = 'sh -c "$@"; sh -c \'printf "\\n%s" "$$"\''
    command = [*SPACE, "sh", "-c", counted, "sh", script, "dbops", *arguments]
    done = subprocess.run(
        command, env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if "unshare" in done.stderr:
        pytest.skip("no process namespaces here")
    output, _, number = done.stdout.rpartition("\n")
    return output, int(number) - 2


def test_probe_starts_few_processes(tmp_path: Path) -> None:
    """Of a directory without a server: 117 before they were counted, then 23."""
    tools = read_host(
        FakeShell(runs_here=True),
        datadir=str(tmp_path),
        defaults_file="",
        inspect=Inspect.CHEAP,
        socket="",
        credentials="",
        statements=[],
    ).host.tools
    known = "".join(f"\n{tool.path} {tool.identity}" for tool in tools.values() if tool.identity) + "\n"
    output, processes = run(SCRIPT, str(tmp_path), "", Inspect.CHEAP, "", known, "", "")
    assert "time.last" in parse_records(output)
    assert processes <= 40


def test_commands_start_few_processes(tmp_path: Path) -> None:
    place = (str(tmp_path / "work"), "db1", "run-1", "1", "dashboard-1")
    run(LAUNCHER, "act", *place, "true")  # the first one makes directories
    output, processes = run(LAUNCHER, "act", *place, "echo $((6 * 7))")
    assert output == "dbops:act\n42\n"
    assert processes <= 9
    output, processes = run(LAUNCHER, "follow", *place, "none", "0", "20")
    assert output.startswith("dbops:state absent\n")
    assert processes <= 3


def test_ssh_is_asked_for_its_ciphers_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ssh").write_text(
        f'#!/bin/sh\necho "$1" >>{tmp_path}/starts\n[ "$1" = -Q ] || {{ echo OpenSSH_9.2p1 >&2; exit; }}\necho aes128-ctr\n'
    )
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def ask(**known: object) -> tuple[str, ...]:
        host = read_host(
            FakeShell(runs_here=True),
            **{"datadir": str(tmp_path), "defaults_file": "", "inspect": Inspect.CHEAP, "socket": ""},  # type: ignore[arg-type]
            **{"credentials": "", "statements": [], **known},  # type: ignore[arg-type]
        ).host
        tools.update(host.tools)
        return host.ssh_ciphers

    tools: dict[str, object] = {}
    assert ask() == ("aes128-ctr",)
    assert ask(known=dict(tools), known_ciphers=("aes128-ctr",)) == ("aes128-ctr",)
    assert (tmp_path / "starts").read_text() == "-V\n-Q\n"
    assert ask(known=dict(tools)) == ("aes128-ctr",), "they are unknown"
