"""Containers without containers: any user id, a read-only root file system, and secret files of other platforms."""

import json
import os
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests import run_folder
from tests.networks import free_port
from tests.stack import ROOT, wait_for

from .confined import ACCOUNT, OTHER_GROUP, confined
from .dashboard import PYTHON, clean_environment, started

pytestmark = [
    pytest.mark.services,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount and run as another account"),
]

READ_ALL = """
import json, sys
from pathlib import Path
from dbops.security.secret_files import read_secret
found = {}
for name in sys.argv[1:]:
    try:
        found[Path(name).name] = read_secret(Path(name))
    except PermissionError:
        found[Path(name).name] = "refused"
print(json.dumps(found))
"""


def test_every_process_of_any_user_id_needs_one_writable_folder() -> None:
    folder = run_folder.new_folder("confined")
    state = folder / "state"
    state.mkdir(mode=0o700)
    os.chown(state, ACCOUNT, ACCOUNT)
    port = free_port()
    own = {name: value for name, value in clean_environment(state).items() if name.startswith("DBOPS_")}
    queue = free_port()
    environment = own | {
        **{"PATH": os.environ["PATH"], "HOME": "/nonexistent", "DBOPS_WEB_PORT": str(port)},
        **{"DBOPS_REDIS_PORT": str(queue), "DBOPS_REDIS_URL": f"redis://127.0.0.1:{queue}/0"},
    }
    create = ("account", "create", "anna", "--group", "viewer", "--password-stdin")
    for words, given in (
        ([ROOT / "script" / "run", "migrate"], ""),
        ([PYTHON, "manage.py", *create], "a password of some length\n"),
    ):
        done = subprocess.run(
            confined(words, state),
            env=environment,
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr
    with ExitStack() as stack:
        log = stack.enter_context((folder / "log").open("ab"))
        for name in ("redis", "web", "worker", "beat"):
            stack.enter_context(started(confined([ROOT / "script" / "run", name], state), environment, log))
        for path in ("/healthz/", "/healthz/worker/", "/healthz/beat/"):
            url = f"http://127.0.0.1:{port}{path}"
            check = [ROOT / "script" / "health", url]
            wait_for(url, lambda check=check: subprocess.run(check, check=False, capture_output=True).returncode == 0)
    assert {path.stat().st_uid for path in state.rglob("*")} == {ACCOUNT}
    run_folder.remove(folder)


def test_secret_files_are_read_where_no_other_account_can(tmp_path: Path) -> None:
    folder = run_folder.new_folder("secrets")
    writable, delivered = folder / "writable", folder / "delivered"
    for path in (writable, delivered):
        path.mkdir()
    commands = [f"mount -t tmpfs -o mode=755 tmpfs {delivered}"]
    read, refused = "content", "refused"
    expected = {
        **{"docker": read, "kubernetes": read, "group": read, "closed": read, "own": read},
        **{"host": refused, "shared-group": refused, "own-group": refused, "writable": refused},
    }

    def make(place: str, owner: int, group: int, mode: str) -> str:
        file = folder / place
        commands.append(
            f"mkdir -p {file.parent} && echo content > {file} && chown {owner}:{group} {file} && chmod {mode} {file}"
        )
        return str(file)

    files = [
        make("delivered/docker", 0, 0, "0444"),
        make("delivered/..data/kubernetes", 0, ACCOUNT, "0440"),
        make("host", 0, 0, "0444"),
        make("group", 0, ACCOUNT, "0440"),
        make("shared-group", 0, OTHER_GROUP, "0440"),
        make("closed-folder/closed", 0, 0, "0444"),
        make("own", ACCOUNT, ACCOUNT, "0600"),
        make("own-group", ACCOUNT, ACCOUNT, "0640"),
        make("writable-by-group", 0, ACCOUNT, "0460"),
    ]
    commands += [
        f"mv {folder}/writable-by-group {folder}/closed-folder/writable",
        f"chown {ACCOUNT} {folder}/closed-folder && chmod 0700 {folder}/closed-folder",
        f"ln -s ..data/kubernetes {delivered}/kubernetes",
        f"mount -o remount,ro {delivered}",
    ]
    files = [name.replace("..data/", "") for name in files[:-1]] + [f"{folder}/closed-folder/writable"]
    words = confined([PYTHON, "-c", READ_ALL, *files], writable, *commands, groups=[OTHER_GROUP])
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == expected
    run_folder.remove(folder)
