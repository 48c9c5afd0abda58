"""The offline bundle: made, installed and started without a network, and run by the units of contrib/systemd."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests import run_folder
from tests.networks import answers, free_port
from tests.stack import ROOT, wait_for

from .confined import ACCOUNT
from .systemd_host import SystemdHost, booted, why_not

SYSTEM_PYTHON = "/usr/bin/python3"
#: Unpacks, installs as root, and starts the web process as an account, where loopback is the only network.
OFFLINE = """
ip link set lo up
tar -xzf "$1"/*.tar.gz -C "$2"
mkdir "$2/srv"
mount --bind "$2/srv" /srv
"$2"/dbops-*/install /srv/dbops-new
ln -sfnT dbops-new /srv/dbops
cd /
run="env DBOPS_STATE_DIR=$2/state DBOPS_REDIS_URL=redis://127.0.0.1:1/0 setpriv --reuid=$3 --regid=$3 --clear-groups --no-new-privs"
$run "/srv/dbops/script/run" migrate
$run "/srv/dbops/.venv/bin/python" -c "import MySQLdb, psycopg"
$run "/srv/dbops/script/run" web >"$2/log" 2>&1 &
for _ in $(seq 60); do
    "/srv/dbops/script/health" 2>/dev/null && break
    sleep 0.5
done
"/srv/dbops/script/health"
curl --silent --show-error --fail --noproxy '*' --output /dev/null http://127.0.0.1:8000/login/
if "/srv/dbops/script/health" http://127.0.0.1:8000/healthz/worker/ 2>/dev/null; then exit 9; fi
"""


def why_no_bundle() -> str:
    """Return why no bundle can be made and installed here; empty if it can."""
    if os.geteuid() != 0:
        return "only root can leave the network and run as another account"
    if subprocess.run(["unshare", "--net", "true"], check=False, capture_output=True).returncode != 0:
        return "unshare may not make namespaces here"
    if subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=False, capture_output=True).returncode != 0:
        return "this is no checkout of git"
    kind = ["-I", str(ROOT / "script" / "lib" / "bundle" / "kind.py")]
    pythons = (SYSTEM_PYTHON, str(ROOT / ".venv" / "bin" / "python"))
    kinds = {subprocess.run([python, *kind], check=False, capture_output=True).stdout for python in pythons}
    if len(kinds) > 1 or subprocess.run([SYSTEM_PYTHON, "-c", "import ensurepip"], check=False).returncode != 0:
        return f"{SYSTEM_PYTHON} cannot install what the Python of the tests bundles"
    return ""


pytestmark = [pytest.mark.services, pytest.mark.skipif(bool(why_no_bundle()), reason=why_no_bundle())]


@pytest.fixture(scope="module")
def bundle() -> Iterator[Path]:
    """Give the folder with the archive of the current commit, its checksum and its SBOM."""
    folder = run_folder.new_folder("bundle")
    subprocess.run([ROOT / "script" / "bundle", folder], check=True, timeout=600, stdout=subprocess.DEVNULL)
    yield folder
    run_folder.remove(folder)


@pytest.fixture(scope="module")
def installed(bundle: Path) -> Iterator[Path]:
    """Give a folder whose ``srv`` has the bundle installed, after it was started as /srv without a network."""
    folder = run_folder.new_folder("installed")
    state = folder / "state"
    state.mkdir(mode=0o700)
    os.chown(state, ACCOUNT, ACCOUNT)
    namespaces = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    words = [*namespaces, "sh", "-e", "-c", OFFLINE, "sh", str(bundle), str(folder), str(ACCOUNT)]
    own = {"PATH": os.environ["PATH"], "HOME": str(folder)}  # building packages can write there
    done = subprocess.run(words, env=own, capture_output=True, text=True, check=False, timeout=600)
    log = (folder / "log").read_text() if (folder / "log").exists() else ""
    assert done.returncode == 0, done.stdout + done.stderr + log
    yield folder
    run_folder.remove(folder)


def unpacked(bundle: Path, folder: Path) -> Path:
    [archive] = bundle.glob("*.tar.gz")
    subprocess.run(["tar", "-xzf", archive, "-C", folder], check=True)
    [found] = folder.iterdir()
    return found


def install(where: Path, folder: Path) -> int:
    return subprocess.run([where / "install", folder], check=False, capture_output=True, timeout=300).returncode


def test_bundle_starts_without_a_network(installed: Path) -> None:
    """See ``OFFLINE``. Only root can change what runs, whatever the mode of what was unpacked."""
    for path in (installed / "srv" / "dbops-new").rglob("*"):
        status = path.lstat()
        assert status.st_uid == 0
        assert path.is_symlink() or not status.st_mode & 0o022, path
    assert {path.stat().st_uid for path in (installed / "state").rglob("*")} == {ACCOUNT}


def test_bundle_has_the_checksum_beside_it(bundle: Path) -> None:
    [file] = bundle.glob("*.sha256")
    assert subprocess.run(["sha256sum", "--check", "--quiet", file.name], cwd=bundle, check=False).returncode == 0


def test_same_commit_gives_the_same_bundle(bundle: Path) -> None:
    again = run_folder.new_folder("again")
    subprocess.run([ROOT / "script" / "bundle", again], check=True, timeout=600, stdout=subprocess.DEVNULL)
    for path in bundle.iterdir():
        assert path.read_bytes() == (again / path.name).read_bytes(), path.name
    run_folder.remove(again)


@pytest.mark.parametrize("damage", ["changed", "added", "renamed", "missing"])
def test_other_content_or_machine_is_refused(bundle: Path, tmp_path: Path, damage: str) -> None:
    found = unpacked(bundle, tmp_path)
    if damage == "changed":
        with (found / "source" / "manage.py").open("a") as file:
            file.write("#")
    elif damage == "added":
        (found / "wheels" / "django-99-py3-none-any.whl").write_bytes(b"")
    elif damage == "missing":
        next((found / "wheels").iterdir()).unlink()
    else:
        found = found.rename(found.with_name(found.name.replace("cp3", "cp2")))
    assert install(found, tmp_path / "target") == 1
    assert not (tmp_path / "target").exists()


def test_folder_that_exists_is_left_alone(bundle: Path, tmp_path: Path) -> None:
    found = unpacked(bundle, tmp_path)
    (tmp_path / "target").mkdir()
    assert install(found, tmp_path / "target") == 1
    assert list((tmp_path / "target").iterdir()) == []


def test_sbom_is_valid_and_names_everything_that_is_installed(bundle: Path, installed: Path) -> None:
    [file] = bundle.glob("*.cdx.json")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(file.read_text()) is None
    place = installed / "srv" / "dbops-new"
    assert (place / "dbops.cdx.json").read_bytes() == file.read_bytes()
    found = json.loads(file.read_text())
    names = {component["purl"].partition("?")[0].lower() for component in found["components"]}
    freeze = [place / ".venv" / "bin" / "python", "-m", "pip", "list", "--format=json"]
    packages = json.loads(subprocess.run(freeze, capture_output=True, check=True, text=True).stdout)
    python = {f"pkg:pypi/{found['name'].replace('_', '-')}@{found['version']}".lower() for found in packages}
    vendored = json.loads((ROOT / "static" / "vendor" / "VENDORED.json").read_text())
    tools = {name for name in python if name.startswith(("pkg:pypi/pip@", "pkg:pypi/setuptools@"))}
    assert names == python - tools | {
        f"pkg:npm/{spec.lower().replace('@', '%40', 1)}" if spec[0] == "@" else f"pkg:npm/{spec}" for spec in vendored
    }
    files = {
        inner["name"]: inner["hashes"] for component in found["components"] for inner in component.get("components", [])
    }
    assert len(files) == sum(map(len, vendored.values()))


#: The commands of docs/how-to/install.md that need no network, where the machine's files cannot be written.
MACHINE = """
mkdir /run/etc
cp -a /etc/. /run/etc/
mount --bind /run/etc /etc
mount --bind "$1/srv" /srv
mount -t tmpfs -o mode=755 tmpfs /var/lib
ln -s /dev/null /run/systemd/system/network-online.target
mkdir -p '/run/systemd/system/dbops@.service.d'
printf '[Unit]\\nDefaultDependencies=no\\n' >'/run/systemd/system/dbops@.service.d/test.conf'
printf 'DBOPS_REDIS_URL=redis://127.0.0.1:%s/0\\nDBOPS_REDIS_PORT=%s\\nDBOPS_WEB_PORT=%s\\nDBOPS_STATE_DIR=/var/lib/dbops\\n' \
    "$2" "$2" "$3" >/etc/dbops.env
chmod 0600 /etc/dbops.env
"""
COMMANDS = (
    *(
        "useradd ",
        "cp -r contrib/systemd",
        "systemctl daemon-reload",
        "install -m 0600 -o dbops",
        "openssl rand -hex 32 >",
    ),
    *("systemctl enable --now dbops@redis", "systemctl start dbops@migrate", "systemctl enable --now dbops@web"),
)


def lines_of_page(*starts: str) -> list[str]:
    """Return the lines of the page that begin with these words, each at least once."""
    page = (ROOT / "docs" / "how-to" / "install.md").read_text().splitlines()
    found = [line.partition(" #")[0].strip() for line in page if line.startswith(starts)]
    assert all(any(line.startswith(start) for line in found) for start in starts)
    return found


@pytest.fixture(scope="module")
def machine(installed: Path) -> Iterator[tuple[SystemdHost, int]]:
    """Boot a machine with dbops in /srv/dbops, and start every process as the page says. Also gives the web's port."""
    web, redis = free_port(), free_port()
    with booted(installed.parent, installed) as host:
        host.run("sh", "-e", "-c", MACHINE, "sh", str(installed), str(redis), str(web))
        for line in lines_of_page(*COMMANDS):
            host.run("sh", "-e", "-c", f"cd /srv/dbops && {line}")
        yield host, web


@pytest.mark.skipif(bool(why_not()), reason=why_not())
class TestUnits:
    def test_every_process_reports_from_its_sandbox(self, machine: tuple[SystemdHost, int]) -> None:
        host, port = machine
        try:
            for path in ("", "worker/", "beat/"):
                wait_for(path or "web", lambda path=path: answers(f"http://127.0.0.1:{port}/healthz/{path}"), 60)
        except AssertionError as error:
            raise AssertionError(host.run("journalctl", "--no-pager", "--lines=60", "--output=cat")) from error
        assert host.property("dbops@migrate", "Result") == "success"
        for name in ("redis", "web", "worker", "beat"):
            assert host.property(f"dbops@{name}", "ActiveState") == "active"
            assert host.property(f"dbops@{name}", "NRestarts") == "0"

    def test_process_can_write_its_state_alone(self, machine: tuple[SystemdHost, int]) -> None:
        host, _ = machine
        pid = host.property("dbops@web", "MainPID")
        # Even root could not, there.
        enter = f"nsenter -t {pid} --mount -- sh -c"
        places = "/ /etc /usr /srv/dbops /srv/dbops/dbops /var/lib /var/log /var/lib/dbops /tmp"
        trial = (
            f"for place in {places}; do touch $place/trial 2>/dev/null && rm $place/trial && echo $place; done; true"
        )
        assert host.run("sh", "-c", f"{enter} '{trial}'").split() == ["/var/lib/dbops", "/tmp"]
        status = dict(
            line.split(":\t", 1) for line in host.run("cat", f"/proc/{pid}/status").splitlines() if ":\t" in line
        )
        assert (status["NoNewPrivs"], status["Seccomp"], int(status["CapBnd"], 16)) == ("1", "2", 0)

    def test_failed_migration_is_reported_and_not_repeated(self, machine: tuple[SystemdHost, int]) -> None:
        host, _ = machine
        host.run("sh", "-c", "echo DBOPS_DATABASE_URL=oracle://u@h/d >>/etc/dbops.env")
        try:
            done = host.run("sh", "-c", "systemctl start dbops@migrate; echo status $?")
            assert done.split()[-1] != "0"
            assert host.property("dbops@migrate", "ActiveState") == "failed"
            assert host.property("dbops@migrate", "NRestarts") == "0"
        finally:
            host.run("sed", "-i", "/oracle/d", "/etc/dbops.env")


def test_units_are_valid_and_hardened() -> None:
    folder = run_folder.new_folder("units")
    shutil.copy(ROOT / "contrib" / "systemd" / "dbops@.service", folder / "dbops@web.service")
    words = ["systemd-analyze", "security", "--offline=yes", "--threshold=20", folder / "dbops@web.service"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    run_folder.remove(folder)
