"""A lab's settings and the file in its folder that stores them."""

import dataclasses
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.errors import LabError

MARKER_FILE = "lab.json"
MARKER_FORMAT = "dbops-lab 1"
DEFAULT_PARENT = Path(os.environ.get("LAB_PARENT", "/var/tmp/dbops-lab"))
MIB = 1024 * 1024
UNITS = {"": 1, "K": 1024, "M": MIB, "G": 1024 * MIB, "T": 1024 * 1024 * MIB}


def parse_size(text: str) -> int:
    """Return bytes for ``512M``, ``1G``, ``1.5GiB`` or a plain number; ``LabError`` for anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:iB|B)?", text.strip(), re.IGNORECASE)
    if not match:
        raise LabError(f"{text!r} is not a size. Use for example 256M or 1G")
    return int(float(match[1]) * UNITS[match[2].upper()])


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of one lab, fixed when it is built: ``up`` refuses others until ``destroy``."""

    name: str = "demo"
    network: str = "127.0.1"
    first: int = 11
    replicas: int = 1
    backups: int = 1
    size_bytes: int = 1024 * MIB
    tables: int = 4
    parallel_appliers: int = 0
    flavor: str = "mariadb"
    prefix: str = ""
    ssh_port: int = 2222
    port: int = 3306

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,30}", self.name):
            raise LabError(f"{self.name!r} is not a valid name. Use lowercase letters, digits and hyphens")
        if not re.fullmatch(r"([a-z0-9][a-z0-9-]{0,30})?", self.prefix):
            raise LabError(f"{self.prefix!r} is not a valid prefix. Use lowercase letters, digits and hyphens")
        octets = self.network.split(".")
        if len(octets) != 3 or octets[0] != "127" or not all(o.isdigit() and int(o) < 256 for o in octets):
            raise LabError(f"--network {self.network!r}: give the first three numbers of a loopback network")
        if min(self.replicas, self.backups, self.parallel_appliers) < 0 or self.tables < 1:
            raise LabError("replicas, backups and appliers must be at least 0, tables at least 1")
        if self.first < 1 or self.first + self.backups + self.replicas > 254:
            raise LabError(f"--first {self.first}: the hosts' addresses would not fit into {self.network}.1 to .254")
        if self.size_bytes < MIB:
            raise LabError("--size is at least 1M")

    @property
    def redo_bytes(self) -> int:
        """Redo log size of each server: enough for the writes during a backup of this size."""
        return 96 * MIB if self.size_bytes < 256 * MIB else 256 * MIB if self.size_bytes < 4096 * MIB else 512 * MIB


def read_marker(folder: Path) -> dict[str, Any] | None:
    """Return the content of the folder's ``lab.json``, ``None`` if there is no lab.

    Raises ``LabError`` if the file is not from a lab.
    """
    path = folder / MARKER_FILE
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text())
    except ValueError as error:
        raise LabError(f"{path} cannot be read: {error}") from None
    if not isinstance(content, dict) or content.get("format") != MARKER_FORMAT:
        raise LabError(f"{path} was not written by this lab")
    return content


def write_marker(folder: Path, settings: Settings, *, built: bool) -> None:
    """Write ``lab.json``; ``built`` means that all hosts have their data."""
    content = {"format": MARKER_FORMAT, "built": built, "settings": dataclasses.asdict(settings)}
    temporary = folder / (MARKER_FILE + ".new")
    temporary.write_text(json.dumps(content, indent=2) + "\n")
    temporary.replace(folder / MARKER_FILE)


def settings_of(marker: dict[str, Any]) -> Settings:
    return Settings(**marker["settings"])
