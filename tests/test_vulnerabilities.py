"""``script/lib/vulnerabilities.py`` against a local service that answers as OSV does."""

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from script.lib.vulnerabilities import ROOT, read_accepted
from tests.networks import free_port

TODAY = datetime.now(UTC).date()
BROKEN = {
    "id": "PYSEC-2026-1",
    "aliases": ["CVE-2026-0001"],
    "summary": "",
    "details": "",
    "affected": [
        {
            "package": {"name": "six", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "9.9"}]}],
        }
    ],
}


class Service(BaseHTTPRequestHandler):
    """Knows one vulnerability, of every version of ``six``."""

    def do_POST(self) -> None:
        query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = json.dumps({"vulns": [BROKEN]} if query["package"]["name"] == "six" else {}).encode()
        self.send_response(500 if self.path == "/broken" and query["package"]["name"] != "pip" else 200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def service() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def run(
    folder: Path, service: str, package: str = "six==1.17.0", accepted: str = ""
) -> subprocess.CompletedProcess[str]:
    (folder / "pinned.txt").write_text(f"{package}\n")
    (folder / "accepted.toml").write_text(accepted)
    words = ["--service", service, "--requirements", folder / "pinned.txt", "--accepted", folder / "accepted.toml"]
    module = [sys.executable, "-m", "script.lib.vulnerabilities"]
    return subprocess.run([*module, *words], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


def entry(until: date, *, package: str = "six", reason: str = "of a test", name: str = "CVE-2026-0001") -> str:
    return f'[[accepted]]\nid = "{name}"\npackage = "{package}"\nreason = "{reason}"\nuntil = {until}\n'


def test_known_vulnerability_fails_and_is_named(tmp_path: Path, service: str) -> None:
    done = run(tmp_path, service)
    assert done.returncode == 1, done.stderr
    [line] = done.stdout.splitlines()
    assert {"six", "PYSEC-2026-1", "CVE-2026-0001", "9.9"} <= set(line.replace(":", "").replace(";", "").split())


def test_package_without_vulnerability_passes(tmp_path: Path, service: str) -> None:
    assert run(tmp_path, service, "vine==5.1.0").returncode == 0


def test_accepted_vulnerability_passes_until_its_day(tmp_path: Path, service: str) -> None:
    assert run(tmp_path, service, accepted=entry(TODAY + timedelta(days=1))).returncode == 0
    assert run(tmp_path, service, accepted=entry(TODAY - timedelta(days=2))).returncode == 1
    assert run(tmp_path, service, accepted=entry(TODAY + timedelta(days=1), package="vine")).returncode == 1


@pytest.mark.parametrize(
    "text",
    [
        entry(TODAY, reason=" "),
        entry(TODAY + timedelta(days=200)),
        entry(TODAY).replace("reason", "because"),
        entry(TODAY).replace(f"{TODAY}", '"always"'),
        "".join(entry(TODAY).splitlines(keepends=True)[:-1]),
    ],
)
def test_acceptance_without_reason_or_near_day_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "accepted.toml").write_text(text)
    with pytest.raises(ValueError, match=r"accepted\.toml"):
        read_accepted(tmp_path / "accepted.toml", TODAY)
    assert run(tmp_path, "http://127.0.0.1:1/", accepted=text).returncode == 2


def test_own_list_can_be_read() -> None:
    read_accepted(ROOT / "script" / "lib" / "vulnerabilities.toml", TODAY)


def test_unreachable_service_passes_and_is_not_taken_for_a_result(tmp_path: Path, service: str) -> None:
    away = f"http://127.0.0.1:{free_port()}/"
    done = run(tmp_path, away)
    assert done.returncode == 0
    assert away in done.stdout
    assert done.stdout != run(tmp_path, service, "vine==5.1.0").stdout


def test_service_that_fails_on_the_way_is_no_pass(tmp_path: Path, service: str) -> None:
    assert run(tmp_path, f"{service}/broken").returncode == 2
