"""Passwords that commands read: from a pipe, or from a terminal that does not show them."""

import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PASSWORD = "correct horse battery"
READ = (sys.executable, "-c", "from dbops.management.passwords import password_line as read; print(f'<{len(read())}>')")


def test_password_is_read_from_a_pipe() -> None:
    done = subprocess.run(READ, cwd=ROOT, input=f"{PASSWORD}\r\n", capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"<{len(PASSWORD)}>\n", "")


@pytest.mark.parametrize(("typed", "length"), [(f"{PASSWORD}\n", len(PASSWORD)), ("\x04", 0)])
def test_a_terminal_asks_for_one_line_and_does_not_show_it(typed: str, length: int) -> None:
    ours, theirs = pty.openpty()
    command = subprocess.Popen(READ, cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    shown = b""
    try:
        while b": " not in shown:
            shown += os.read(ours, 1000)
        time.sleep(0.2)  # the prompt comes after the terminal stopped showing, but that is not promised
        os.write(ours, typed.encode())
        assert command.wait(10) == 0, "one line is enough"
        shown += os.read(ours, 1000)
    finally:
        command.kill()
        command.wait()
        os.close(ours)
    assert f"<{length}>" in shown.decode()
    assert PASSWORD not in shown.decode()
