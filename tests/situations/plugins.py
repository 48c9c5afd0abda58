"""Plugins of the installed MariaDB server, unpacked from Debian's package beside it: nothing is installed."""

import fcntl
import subprocess
from pathlib import Path

import pytest

PLACE = Path("/var/tmp/dbops-mariadb-plugins")  # noqa: S108 - root's, like the unpacked servers
PACKAGE = "mariadb-server"


def plugin_folder() -> Path:
    """Return the folder with the plugins of the installed version; skip the test where apt cannot provide them."""
    version = _run("dpkg-query", "-W", "-f", "${Version}", "mariadb-server-core").strip()
    folder = PLACE / version.replace(":", "_")
    plugins = folder / "usr/lib/mysql/plugin"
    PLACE.mkdir(mode=0o755, exist_ok=True)
    with (PLACE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (plugins / "file_key_management.so").exists():
            folder.mkdir(mode=0o755, exist_ok=True)
            try:
                _run("apt-get", "-qq", "download", f"{PACKAGE}={version}", folder=folder)
            except (OSError, subprocess.CalledProcessError) as error:
                pytest.skip(f"apt cannot download {PACKAGE} {version}: {error}")
            [package] = folder.glob(f"{PACKAGE}_*.deb")
            _run("dpkg-deb", "-x", str(package), ".", folder=folder)
            package.unlink()
    return plugins


def _run(*words: str, folder: Path | None = None) -> str:
    return subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True, timeout=180).stdout
