"""Shared parts of the benchmarks: temporary folders, timing and the headline with the machine."""

import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import django

from script.lib.supervisor import Failed

PARENT = "/var/tmp"  # noqa: S108 - a name of its own is made in there


def say(text: str) -> None:
    print(text, flush=True)


@contextmanager
def scratch(*, passable: bool = False) -> Iterator[Path]:
    """Yield a temporary folder. ``passable``: the servers' user can traverse it, as a lab requires."""
    folder = Path(tempfile.mkdtemp(prefix="dbops-bench-", dir=PARENT))
    folder.chmod(0o755 if passable else 0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def own_django() -> Iterator[Path]:
    """Set up Django with its state, and its database unless DBOPS_DATABASE_URL names one, in a temporary folder."""
    with scratch() as folder:
        os.environ["DBOPS_STATE_DIR"] = str(folder)
        os.environ.setdefault("DBOPS_DATABASE_URL", f"sqlite:///{folder / 'bench.sqlite3'}")
        os.environ["DJANGO_SETTINGS_MODULE"] = "dbops.settings"
        django.setup()
        yield folder


def machine() -> str:
    model = _first("/proc/cpuinfo", r"^model name\s*:\s*(.+)$") or platform.machine()
    gib = int(_first("/proc/meminfo", r"^MemTotal:\s*(\d+)") or 0) / 1024**2
    return f"{os.cpu_count()} cores ({model}), {gib:.0f} GiB of memory, {platform.system()} {platform.release()}"


def _first(file: str, pattern: str) -> str:
    found = re.search(pattern, Path(file).read_text(), re.MULTILINE)
    return found[1].strip() if found else ""


def headline(name: str, arguments: list[str], *facts: str) -> str:
    """Return one line with the date, the machine, ``facts`` and the command to repeat the run."""
    command = shlex.join(["script/bench", *([name] if name else []), *arguments])
    return f"{datetime.now(UTC):%Y-%m-%d}, {', '.join([machine(), *facts])}: {command}"


def report(name: str, arguments: list[str], facts: list[str], lines: list[str], record: dict[str, Any] | None) -> None:
    """Print the headline, the lines and, if given, ``record`` as one JSON object."""
    say(f"\n{headline(name, arguments, *facts)}\n")
    say("\n".join(lines))
    if record is not None:
        say(json.dumps(record))


def timed(command: str) -> float:
    """Run a shell pipeline and return its seconds. Raises ``Failed`` if any part fails."""
    began = time.monotonic()
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{command[:200]}: status {done.returncode}: {done.stderr[-500:]}")
    return time.monotonic() - began


@contextmanager
def option_file(include: Path | None, user: str, password: str) -> Iterator[Path]:
    with tempfile.NamedTemporaryFile("w", prefix="dbops-bench-", suffix=".cnf") as file:
        file.write(f"!include {include}\n" if include else "")
        file.write(f'[client]\nuser="{user}"\npassword="{password}"\n')
        file.flush()
        yield Path(file.name)
