"""A backup tool with wrong results: a script of its name that a host's sessions find before the real one.

Without an order it is the real tool. An order is bash that has ``$real``, ``$python`` and ``$here`` (the script's folder), and the
tool's words in ``$@``. It runs as the server's account, and disturbs backups, or preparations when it is given for them.
"""

import os
import shutil
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

from lab.hosts import LabHost
from tests.programs import backup_tool, give_back, program_of, put_before
from tests.stack import wait_for

HERE = Path(__file__).parent

SCRIPT = """#!/bin/bash
real={real}
python={python}
here={here}
order=
case " $* " in
*" --print-param "*) ;; # a trial is not disturbed: the tool breaks later
*" --backup "*) order=$(cat "$0.backup" 2>/dev/null) ;;
*" --prepare "*) order=$(cat "$0.prepare" 2>/dev/null) ;;
esac
if [ -n "$order" ]; then
    eval "$order"
else
    exec "$real" "$@"
fi
"""

#: the tool's own temporary directory, in the host's folder
TEMPORARY = "tool-tmp"
#: what a backup may do instead of a backup
ORDERS = {
    # more than the system table space, less than the tables
    "cut at a chunk's end": 'exec "$real" "$@" > >("$python" "$here/chunks.py" 20000000)',
    "nothing at all": 'exec "$real" "$@" >/dev/null',
    "not even a log": "exit 0",
    "an error page": 'echo "<html><head><title>502 Bad Gateway</title></head></html>"; exit 0',
    "a banner first": 'echo "Welcome to db7. Authorised use only."; exec "$real" "$@"',
    "never says completed": 'set -o pipefail; { "$real" "$@" 2>&1 >&3 3>&- | grep -v --line-buffered "completed OK!" >&2; } 3>&1',
    # until ``lose_status``: the server's account cannot end the process of root that waits for the status
    "its status is lost": '"$real" "$@"; kill -STOP $$',
    "few open files": 'ulimit -n 16; exec "$real" "$@"',
    "a full temporary directory": f'exec "$real" "$@" "--tmpdir=$(dirname "$(dirname "$0")")/{TEMPORARY}"',
    "hears no signal": 'exec "$python" "$here/deaf.py"',
    "runs below a script": '"$real" "$@"; exit $?',
    "prints what it should not": 'cat "$0.lines" >&2; exec "$real" "$@"',
    # the smallest copy is prepared within a moment: stopped from outside, it would be missed at times
    "is held": 'kill -STOP $$; exec "$real" "$@"',
}


def install(host: LabHost) -> Path:
    """Put the script before the real tool. The next probe of the host finds it."""
    folder, name = host.sshd.programs, backup_tool(host)
    folder.mkdir(exist_ok=True)
    for helper in ("chunks.py", "deaf.py"):  # in a folder that the server's account can enter, as its Python must be
        (folder / helper).write_text((HERE / helper).read_text())
    python = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
    return put_before(host, name, SCRIPT.format(real=program_of(host, name), python=python, here=folder))


def order(host: LabHost, name: str, stage: str = "backup") -> None:
    """Let the host's backups (or each ``prepare``) do that from now on; ``""`` is one like any other."""
    file = host.sshd.programs / f"{backup_tool(host)}.{stage}"
    if name:
        file.write_text(ORDERS[name])
    else:
        file.unlink(missing_ok=True)


def lose_status(host: LabHost) -> None:
    """Kill the process that waits for the status of the host's backup, which has ended but for its last word."""
    program = str(host.sshd.programs / backup_tool(host))
    pid = wait_for("the tool has stopped", lambda: _stopped(program), 120)
    os.kill(int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)
    os.kill(pid, signal.SIGCONT)


def _stopped(program: str) -> int | None:
    for path in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = program.encode() in (path / "cmdline").read_bytes().split(b"\0")
            if is_ours and (path / "stat").read_text().rpartition(")")[2].split()[0] == "T":
                return int(path.name)
        except OSError:
            continue
    return None


def set_lines(host: LabHost, lines: Iterable[str]) -> None:
    """Set what a tool that ``prints what it should not`` prints."""
    (host.sshd.programs / f"{backup_tool(host)}.lines").write_text("".join(f"{line}\n" for line in lines))


def remove(host: LabHost) -> None:
    """Let the host's sessions find the real tool again."""
    name = backup_tool(host)
    for ending in ("backup", "prepare", "lines"):
        (host.sshd.programs / f"{name}.{ending}").unlink(missing_ok=True)
    give_back(host, name)
