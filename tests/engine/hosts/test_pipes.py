"""The pipes of a copy are made wide where the host can do that, and added up by what is fast there; else all is as it was."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dbops.engine.hosts.scripts import load

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
def test_widen_pipe_keeps_its_content(end: str, names: tuple[str, ...], size: int, tmp_path: Path) -> None:
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


def test_widen_pipe_ignores_files(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"a file")
    with file.open("rb") as opened:
        done = run("widen_input && widen_output", opened.fileno(), subprocess.PIPE, os.environ["PATH"])
    assert (done.returncode, done.stdout, done.stderr) == (0, b"a file", b"")


def openssl_that(folder: Path, does: str) -> None:
    (folder / "openssl").write_text(f"#!/bin/sh\necho asked >>{folder}/asked\n{does}\n")
    (folder / "openssl").chmod(0o755)


@pytest.mark.parametrize(
    ("does", "asked"),
    [
        ('exec {openssl} "$@"', 2),
        ("echo 'Error setting digest' >&2; exit 1", 1),
        ("echo 'SHA256(stdin)= e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'", 1),
        (None, 0),
    ],
)
def test_checksum_equals_sha256sum_with_and_without_openssl(does: str | None, asked: int, tmp_path: Path) -> None:
    """One that refuses, or says the sum in another form, is asked once and does not get the data."""
    path = programs(tmp_path, "perl", "sha256sum")
    if does:
        openssl_that(tmp_path, does.format(openssl=shutil.which("openssl")))
    words = ["/bin/bash", "-c", f"set -u\n{load('pipes')}\nadd_up"]
    sent = os.urandom(1 << 20)
    done = subprocess.run(words, input=sent, capture_output=True, env={"PATH": path}, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.split()[0].decode() == hashlib.sha256(sent).hexdigest()
    seen = tmp_path / "asked"
    assert (seen.read_text().count("asked") if seen.exists() else 0) == asked
