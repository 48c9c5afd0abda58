"""Real proxies with the fragments of docs/how-to/proxy.md, as an account without rights on ports of loopback."""

import os
import pwd
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests import run_folder
from tests.networks import free_port
from tests.stack import ROOT, wait_for

from .dashboard import started

HOST = "dbops.example.org"
PAGE = ROOT / "docs" / "how-to" / "proxy.md"
ACCOUNT = "daemon"


@dataclass(frozen=True)
class Proxy:
    """One program: the whole configuration around its fragment, and its command."""

    name: str
    around: Callable[[str, Path], str]
    command: Callable[[Path], list[str]]
    #: how the fragment names its port
    port: str


def fragment(name: str) -> str:
    found = re.findall(rf"^```{name}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(found) == 1, name
    return str(found[0])


def _nginx(text: str, folder: Path) -> str:
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in kinds)
    return f"pid {folder}/pid;\nevents {{}}\nhttp {{\naccess_log off;\n{temporary}{text}}}\n"


def _apache(text: str, folder: Path) -> str:
    names = ("mpm_event", "authz_core", "socache_shmcb", "ssl", "http2", "proxy", "proxy_http", "headers")
    modules = "".join(f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n" for name in names)
    port = re.findall(r"VirtualHost 127.0.0.1:(\d+)", text)[0]
    own = f"ServerRoot {folder}\nPidFile {folder}/pid\nErrorLog {folder}/log\nDefaultRuntimeDir {folder}\nListen 127.0.0.1:{port}\n"
    return f"{modules}{own}{text}"


def _haproxy(text: str, folder: Path) -> str:
    return f"global\n    maxconn 100\n{text}"


def _caddy(text: str, folder: Path) -> str:
    own = f"{{\nadmin off\nauto_https off\nstorage file_system {folder}\n}}\n"
    return own + text.replace(" {\n", f" {{\ntls {folder}/cert.pem {folder}/key.pem\n", 1)


PROXIES = {
    proxy.name: proxy
    for proxy in (
        Proxy(
            "nginx",
            _nginx,
            lambda folder: [
                "nginx",
                "-p",
                str(folder),
                "-c",
                str(folder / "config"),
                "-e",
                "stderr",
                "-g",
                "daemon off;",
            ],
            "listen 443",
        ),
        Proxy("apache", _apache, lambda folder: ["apache2", "-f", str(folder / "config"), "-DFOREGROUND"], "*:443"),
        Proxy("haproxy", _haproxy, lambda folder: ["haproxy", "-db", "-f", str(folder / "config")], ":443"),
        Proxy(
            "caddy",
            _caddy,
            lambda folder: ["caddy", "run", "--adapter", "caddyfile", "--config", str(folder / "config")],
            f"{HOST} {{",
        ),
    )
}
PORTS = {
    "nginx": "listen 127.0.0.1:PORT",
    "apache": "127.0.0.1:PORT",
    "haproxy": "127.0.0.1:PORT",
    "caddy": f"https://{HOST}:PORT {{",
}


def make_certificate(folder: Path) -> None:
    names = [*("-subj", f"/CN={HOST}"), *("-addext", f"subjectAltName=DNS:{HOST}")]
    files = [*("-keyout", folder / "key.pem"), *("-out", folder / "cert.pem")]
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    subprocess.run(["openssl", "req", *kind, *names, *files], check=True, capture_output=True)
    (folder / "both.pem").write_text((folder / "cert.pem").read_text() + (folder / "key.pem").read_text())


@contextmanager
def running_proxy(name: str, web_port: int, **changes: str) -> Iterator[tuple[int, Path]]:
    """Give the port and the certificate of a proxy before a web process.

    Args:
        name: of ``PROXIES``.
        web_port: of the web process on 127.0.0.1.
        changes: texts of the fragment and what takes their place, as ``old``, ``new``.
    """
    proxy, folder, port = PROXIES[name], run_folder.new_folder(name), free_port()
    make_certificate(folder)
    text = fragment(name)
    for old, new in (
        (proxy.port, PORTS[name].replace("PORT", str(port))),
        ("127.0.0.1:8000", f"127.0.0.1:{web_port}"),
        *([(changes["old"], changes["new"])] if changes else []),
    ):
        assert old in text, old
        text = text.replace(old, new)
    for old, new in (("dbops-with-key.pem", "both.pem"), ("dbops.pem", "cert.pem"), ("dbops.key", "key.pem")):
        text = text.replace(f"/etc/ssl/{old}", str(folder / new))
    (folder / "config").write_text(proxy.around(text, folder))
    account = ACCOUNT if os.geteuid() == 0 else None
    if account:
        for path in (folder, *folder.iterdir()):
            os.chown(path, pwd.getpwnam(account).pw_uid, -1)
    environment = {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    with (
        (folder / "output").open("ab") as log,
        started(proxy.command(folder), environment, log, user=account, cwd=folder) as process,
    ):

        def answers() -> bool:
            assert process.poll() is None, (folder / "output").read_text()
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        wait_for(name, answers, 20)
        yield port, folder / "cert.pem"
    shutil.rmtree(folder, ignore_errors=True)
