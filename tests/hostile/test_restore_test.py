"""A backup file is written by others. No program that reads its restored content runs as root, wherever the scratch directory is."""

import hashlib
import json
import shutil
import subprocess
from uuid import uuid4

import pytest

from dbops.engine.hosts.scripts import load

from .attacker import ACCOUNT, NOBODY
from .ground import RUN, Ground
from .test_data_directory import run

#: Each program says who runs it, and does as much as the script needs to continue.
PROGRAMS = {
    "unpacker": 'cat >/dev/null; echo "backup_type = log-applied" >"$2/checkpoints"; echo 1 >"$2/ibdata1"; '
    'printf "[mysqld]\\ninnodb_page_size=16384\\nplugin_dir=/tmp\\n" >"$2/backup-my.cnf"',
    "tool": "echo 'completed OK!' >&2",
    "server": "exec sleep 60",
    "client": "cat; echo 1",
}
SCRIPTS = ("common", "pipes", "copied_options", "scratch", "scratch_server", "restored_copy", "run_restore_test")


def restore(ground: Ground, owner: str) -> subprocess.CompletedProcess[str]:
    """Test the restore of a backup file in ``of-root``. The programs write their account's name to ``open/NAME``."""
    said, programs = ground.folder / "open", ground.folder / "bin"
    said.mkdir()
    said.chmod(0o1777)
    programs.mkdir()
    for name, text in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/bash\nid -un >{said}/{name} 2>/dev/null\n{text}\n")
        (programs / name).chmod(0o755)
    packed = ground.roots / "backup.xb.zst"
    packed.write_bytes(subprocess.run(["zstd", "-q", "-c"], input=b"stream", capture_output=True, check=True).stdout)
    sum_, size = hashlib.sha256(packed.read_bytes()).hexdigest(), packed.stat().st_size
    (ground.roots / "backup.xb.zst.json").write_text(json.dumps({"run": RUN, "sha256": sum_}, indent=1))
    one = uuid4().hex[:16]
    data = f"{ground.roots}/.dbops-restore-test-{one}/data"
    unpack, prepare = ["-C", data], [f"--target-dir={data}"]
    words = ["", packed, size, RUN, sum_, ground.roots, one, owner, 1, 1, 1 << 34, 1, 5, "log-applied"]
    words += ["unpacker", "tool", "server", "client", "checkpoints", len(unpack), len(prepare), 0, 0]
    path = f"{programs}:"
    return run(ground, load(*SCRIPTS), *words, *unpack, *prepare, path=path)


@pytest.mark.parametrize("mode", [0o755, 0o700], ids=["open directory", "directory of root alone"])
@pytest.mark.parametrize("owner", [ACCOUNT, "root", "no-such-account"])
def test_no_program_of_a_restore_test_runs_as_root(ground: Ground, mode: int, owner: str) -> None:
    ground.roots.chmod(mode)
    ended = restore(ground, owner)
    wanted = ACCOUNT if owner == ACCOUNT else NOBODY
    ran = {path.name: path.read_text().strip() for path in (ground.folder / "open").iterdir()}
    assert ran == dict.fromkeys(PROGRAMS, wanted), ended
    assert not list(ground.roots.glob(".dbops-restore-test-*"))


def test_scratch_directory_is_made_by_the_account_that_owns_its_place(ground: Ground) -> None:
    """Root gives away nothing by a name that this account can exchange."""
    shutil.chown(ground.roots, ACCOUNT)
    ended = restore(ground, ACCOUNT)
    assert {path.read_text().strip() for path in (ground.folder / "open").iterdir()} == {ACCOUNT}, ended
    assert not list(ground.roots.glob(".dbops-restore-test-*"))


def test_scratch_directory_is_not_made_where_a_third_account_can_exchange_it(ground: Ground) -> None:
    shutil.chown(ground.roots, NOBODY)
    ended = restore(ground, ACCOUNT)
    assert ended.stdout.splitlines()[-1].startswith("REFUSED: space "), ended
    assert not list((ground.folder / "open").iterdir())


def test_links_in_a_backup_are_refused_before_a_program_reads_them(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = f'; ln -s {ground.roots}/secret "$2/t.ibd"'
    monkeypatch.setitem(PROGRAMS, "unpacker", PROGRAMS["unpacker"] + link)
    ended = restore(ground, ACCOUNT)
    assert ended.stdout.splitlines()[-1].startswith("FAILED: outside "), ended
    assert [path.name for path in (ground.folder / "open").iterdir()] == ["unpacker"]
