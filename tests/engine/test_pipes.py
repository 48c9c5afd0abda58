"""The pipes of a copy are made wide where the host can do that, and nothing else happens where it cannot."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dbops.engine.scripts import load

GET_PIPE_SIZE = 1032  # F_GETPIPE_SZ of Linux, which Python names since 3.10
WIDE, USUAL = 1 << 20, 1 << 16


def programs(folder: Path, *names: str) -> str:
    """Return a PATH on which nothing but these programs is."""
    for name in names:  # not a link: Python looks for its library beside the name it was called by
        program = sys.executable if name == "python3" else shutil.which(name)
        (folder / name).write_text(f'#!/bin/sh\nexec {program} "$@"\n')
        (folder / name).chmod(0o755)
    return str(folder)


def run(call: str, stdin: int | None, stdout: int, path: str) -> subprocess.CompletedProcess[bytes]:
    words = ["/bin/bash", "-c", f"set -u\n{load('pipes')}\n{call} && exec /bin/cat"]
    return subprocess.run(
        words, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, env={"PATH": path}, timeout=30, check=False
    )


@pytest.mark.parametrize(("names", "size"), [(("perl",), WIDE), (("python3",), WIDE), ((), USUAL)])
@pytest.mark.parametrize("end", ["input", "output"])
def test_a_pipe_is_widened_and_what_stands_in_it_stays(
    end: str, names: tuple[str, ...], size: int, tmp_path: Path
) -> None:
    for name in names:
        if not shutil.which(name):
            pytest.skip(f"{name} is not installed")
    reading, writing = os.pipe()
    out_reading, out_writing = os.pipe()
    try:
        os.write(writing, b"what was sent")
        os.close(writing)
        done = run(f"widen_{end}", reading, out_writing, programs(tmp_path, *names))
        assert (done.returncode, done.stderr) == (0, b"")
        wide, usual = (reading, out_reading) if end == "input" else (out_reading, reading)
        assert fcntl.fcntl(wide, GET_PIPE_SIZE) == size
        assert fcntl.fcntl(usual, GET_PIPE_SIZE) == USUAL
        assert os.read(out_reading, 100) == b"what was sent"
    finally:
        for descriptor in (reading, out_reading, out_writing):
            os.close(descriptor)


def test_what_is_no_pipe_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"a file")
    with file.open("rb") as opened:
        done = run("widen_input && widen_output", opened.fileno(), subprocess.PIPE, os.environ["PATH"])
    assert (done.returncode, done.stdout, done.stderr) == (0, b"a file", b"")
