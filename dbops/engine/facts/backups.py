"""Facts of external backups: processes on the host, connections of the server, crontab lines."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from dbops.engine.states import BackupMethod


class Reads(StrEnum):
    """Which instance a process on the host reads, as far as it is certain. ``UNCLEAR`` is shown and never guessed at."""

    THIS = "this"
    OTHER = "other"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class BackupProcess:
    """A running backup tool on the host.

    ``key`` is ``boot:pid:ticks``: no other process of any host ever has it. ``parents`` are the keys of its ancestors,
    nearest first; ``family`` is the nearest one's where that is a script (not cron, systemd or sshd), else ``""``.
    ``command`` is cleaned of passwords. ``because`` says in words what ``reads`` was told by. ``is_ours``: a job of this
    product. ``output_bytes`` is the size of the file on its standard output now; ``None`` where that is no file.
    """

    key: str
    pid: int
    tool: str
    method: BackupMethod
    started_at: datetime
    user: str
    command: str
    reads: Reads
    because: str
    is_ours: bool = False
    parents: tuple[str, ...] = ()
    family: str = ""
    output_path: str = ""
    output_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class BackupConnection:
    """A connection of the server whose statements are those of a backup tool.

    ``client`` is the host that it comes from as the server names it, with its port; ``is_local``: it comes from the
    server's own host. ``since`` is when it was first seen at it. ``statement`` is the tell-tale one, cut to its beginning.
    """

    number: int
    user: str
    client: str
    is_local: bool
    tool: str
    method: BackupMethod
    statement: str
    since: datetime


@dataclass(frozen=True, slots=True)
class FoundSchedule:
    """A line of a crontab, or a systemd timer, on the host that runs a backup tool: a proposal, nothing more.

    ``timing`` is a cron expression, or systemd's ``OnCalendar`` where ``kind`` is ``systemd``.
    """

    source: str
    kind: str
    timing: str
    time_zone: str
    user: str
    tool: str
    method: BackupMethod | None
    command: str
