"""Facts of external backups: processes on the host, connections of the server, crontab lines."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from dbops.engine.states import BackupMethod


class Reads(StrEnum):
    """Instance that a process on the host reads, if certain. ``UNCLEAR`` is shown and never guessed."""

    THIS = "this"
    OTHER = "other"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class BackupProcess:
    """A running backup tool on the host.

    ``key`` is ``boot:pid:ticks``, unique for every process of every host. ``parents`` are the keys of its ancestors, nearest
    first; ``family`` is the nearest ancestor's if that is a script (not cron, systemd or sshd), else ``""``. ``command`` has no
    passwords. ``because`` is the reason for ``reads``, in words. ``is_ours``: a job of dbops. ``output_bytes`` is the current
    size of the file on its standard output; ``None`` if that is no file.
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

    ``client`` is the connecting host as the server names it, with its port; ``is_local``: it connects from the server's own host.
    ``since`` is when the statement was first seen. ``statement`` is the recognized statement, shortened to its beginning.
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
    """A line of a crontab, or a systemd timer, on the host that runs a backup tool: only a proposal.

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
