"""Rollback on real directories: after any interruption the next one restores the old data completely."""

import getpass
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from dbops.engine.hosts.scripts import load

RUN = "0123456789abcdef"
OLD = {"ibdata1": "old", "mysql": "old", "only-old": "old"}
COPY = {"ibdata1": "copy", "mysql": "copy", "only-copy": "copy"}
SCRIPT = load("common", "service", "rollback")
#: ``mv`` that works file by file, and fails for good after as many as the file ``left`` says.
WORN_OUT_MV = """#!/bin/bash
step() {
    left=$(cat "$LEFT")
    [ "$left" -gt 0 ] || exit 1
    echo $((left - 1)) >"$LEFT"
}
if [ "$1" = -t ]; then
    into=$2 && shift 3
    for one; do step && /bin/mv -t "$into" -- "$one"; done
elif [ "$2" = -t ]; then
    into=$3 && shift 4
    for one; do step && /bin/mv -n -t "$into" -- "$one"; done
else
    step && /bin/mv "$@"
fi
"""


@dataclass
class Host:
    root: Path
    inside: bool

    def __post_init__(self) -> None:
        (self.root / "bin").mkdir()
        (self.root / "bin/mv").write_text(WORN_OUT_MV)
        (self.root / "bin/mv").chmod(0o755)
        self.datadir.mkdir()
        self.fill(self.datadir, {**COPY, f".dbops-{RUN}": ""})
        self.fill(self.aside, OLD)
        self.identity = self.identity_of(self.aside)

    @property
    def datadir(self) -> Path:
        return self.root / "data"

    @property
    def aside(self) -> Path:
        return self._beside("old")

    @property
    def failed(self) -> Path:
        return self._beside("failed")

    def _beside(self, what: str) -> Path:
        return self.datadir / f".dbops-{what}-{RUN}" if self.inside else self.root / f"data.dbops-{what}-{RUN}"

    @staticmethod
    def fill(directory: Path, files: dict[str, str]) -> None:
        directory.mkdir(exist_ok=True)
        for name, text in files.items():
            (directory / name).write_text(text)

    @staticmethod
    def identity_of(directory: Path) -> str:
        return f"{directory.stat().st_dev}:{directory.stat().st_ino}"

    def files(self, directory: Path) -> dict[str, str]:
        found = directory.iterdir() if directory.exists() else ()
        return {path.name: path.read_text() for path in found if path.is_file() and not path.name.startswith(".dbops-")}

    def rolled_back(
        self, moves: int = 1000, script: str = SCRIPT, *, client: str = "true", stop: Sequence[str] = ("true",)
    ) -> int:
        (self.root / "left").write_text(str(moves))
        words = [
            self.datadir,
            RUN,
            self.aside,
            self.identity,
            self.failed,
            "13",
            "/no/socket",
            client,
            "",
            getpass.getuser(),
            *stop,
        ]
        ended = subprocess.run(
            ["bash", "-c", script, "rolled_back", *map(str, words)],
            env={
                "PATH": f"{self.root}/bin:/usr/bin:/bin",
                "LEFT": f"{self.root}/left",
                "DBOPS_JOB_DIR": str(self.root),
            },
            capture_output=True,
            check=False,
        )
        return ended.returncode

    def look(self) -> dict[str, str]:
        words = ["look", str(self.datadir), str(self.aside), RUN]
        found = subprocess.run(
            ["bash", "-c", load("common", "inspect_target"), *words], capture_output=True, text=True, check=True
        )
        return dict(line.split("=", 1) for line in found.stdout.splitlines())


def is_whole(host: Host, moves: int, script: str = SCRIPT) -> bool:
    """Go back, be ended after so many moves, go back again. Tell whether nothing was mixed, lost or offered for more."""
    first = host.rolled_back(moves, script)
    if host.look()["new"] and host.files(host.datadir) != COPY:
        return False  # an incomplete copy with its mark: a retry would start a server on it
    if first != 0 and host.rolled_back(1000, script) != 0:
        return False
    return host.files(host.datadir) == OLD and host.files(host.failed) == COPY and not host.aside.exists()


@pytest.mark.parametrize("inside", [False, True], ids=["a directory", "a mount point"])
@pytest.mark.parametrize("moves", range(10))
def test_rollback_restores_old_data_after_any_interruption(tmp_path: Path, inside: bool, moves: int) -> None:
    assert is_whole(Host(tmp_path, inside), moves)


@pytest.mark.parametrize(("old", "new"), [(' ! -path "$left"', ""), ('here mv -f -T -- "$marked" "$left"', "true")])
def test_weakened_rollback_is_detected(tmp_path: Path, old: str, new: str) -> None:
    """The negative control: the mark is moved with the rest, or marks a whole copy for too long."""
    script = SCRIPT.replace(old, new)
    assert script != SCRIPT
    hosts = []
    for moves in range(10):
        (tmp_path / str(moves)).mkdir()
        hosts.append(is_whole(Host(tmp_path / str(moves), True), moves, script))
    assert not all(hosts)


def test_rollback_keeps_data_of_another_rebuild_on_a_mount_point(tmp_path: Path) -> None:
    """A person may have asked to keep it; the copy that is given up is removed at the end."""
    host = Host(tmp_path, True)
    kept = host.datadir / ".dbops-old-another"
    host.fill(kept, OLD)
    assert host.rolled_back() == 0
    assert host.files(kept) == OLD


SYSTEMCTL = """#!/bin/bash
# answers as systemd does, from one file: a unit of which it is said to have no process
state=$(dirname "$0")/state
case $1 in
    show) echo "$3=$(cat "$state")" ;;
    stop) echo inactive >"$state" ;;
esac
"""


@pytest.mark.parametrize(
    ("state", "words", "status"),
    [
        ("active", "ERROR 2002 (HY000): Can't connect to local server through socket", 0),
        ("activating", "ERROR 2002 (HY000): Can't connect to local server through socket", 0),
        ("deactivating", "ERROR 2002 (HY000): Can't connect to local server through socket", 0),
        ("active", "/elsewhere/data", 65),
        ("inactive", "never asked", 0),
        ("failed", "never asked", 0),
        ("", "never asked", 0),
    ],
)
def test_unit_that_could_start_a_server_is_stopped_unless_its_server_uses_other_data(
    tmp_path: Path, state: str, words: str, status: int
) -> None:
    host = Host(tmp_path, False)
    for name, text in (("systemctl", SYSTEMCTL), ("client", f"#!/bin/bash\necho {shlex.quote(words)}\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "state").write_text(f"{state}\n")
    unit = (str(tmp_path / "systemctl"), "stop", "mariadb")
    assert host.rolled_back(client=str(tmp_path / "client"), stop=unit) == status
    after = "inactive" if words.startswith("ERROR") else state
    assert (tmp_path / "state").read_text().strip() == after
    assert host.files(host.datadir) == (OLD if status == 0 else COPY)


def test_inspection_reports_two_places_when_the_move_was_interrupted(tmp_path: Path) -> None:
    host = Host(tmp_path, True)
    for name in (*COPY, f".dbops-{RUN}"):
        (host.datadir / name).unlink()
    assert host.look()["empty"] == "1"
    (host.aside / "mysql").rename(host.datadir / "mysql")
    assert (host.look()["empty"], host.look()["new"], host.look()["leaving"]) == ("", "", "")
    assert host.rolled_back() == 0
    assert host.files(host.datadir) == OLD
