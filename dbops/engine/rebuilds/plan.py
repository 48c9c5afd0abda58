"""What a rebuild will do, frozen: shown to a person, confirmed, and then run exactly as it stands."""

import hashlib
import json
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from dbops.engine.backups.archives import Archive
from dbops.engine.facts.instance import to_record
from dbops.engine.states import Severity

#: Findings of which each word counts. What the others say (connections, lag) changes by itself.
EXACT_CODES = frozenset({"target.errant"})


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a pre-flight check. ``code`` is an entry of ``docs/reference/checks.md``."""

    code: str
    severity: Severity
    title: str
    seen: str
    advice: str = ""

    @property
    def accepted_as(self) -> str:
        """What a person accepts with this finding: its code, or every word where it says what is lost for good."""
        return f"{self.code}: {self.seen}" if self.code in EXACT_CODES else self.code


@dataclass(frozen=True, slots=True)
class PlannedCommand:
    """One command or statement, as it will run, with secrets masked. ``place`` is an instance's name."""

    place: str
    text: str


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step of the plan.

    ``predicted_seconds`` is what half of ``predicted_runs`` past ones took at most, ``None`` where there is none;
    ``predicted_p90_seconds`` 9 of 10, ``None`` also where there are too few. ``is_of_others``: those were rebuilds of other clusters.
    """

    name: str
    title: str
    commands: tuple[PlannedCommand, ...] = ()
    predicted_seconds: float | None = None
    predicted_p90_seconds: float | None = None
    predicted_runs: int = 0
    is_of_others: bool = False


@dataclass(frozen=True, slots=True)
class PlannedInstance:
    """One instance of a plan as its last probe saw it: what the live check compares just before anything is stopped.

    ``server_id``, ``server_uuid`` and ``version`` are empty where the server did not answer. ``machine`` is what the host
    says of itself (name and machine id): address, host key and inodes of a cloned machine are those of its original.
    """

    name: str
    role: str
    host: str
    host_key_fingerprint: str
    ssh_address: str
    ssh_port: int
    ssh_user: str
    address: str
    port: int
    datadir: str
    datadir_identity: str
    defaults_file: str
    os_user: str
    configured_server_id: int | None
    start_command: str
    stop_command: str
    is_answering: bool
    socket: str = ""
    local_address: str = ""
    machine: str = ""
    server_id: int | None = None
    server_uuid: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that will be done. ``fingerprint`` leaves out what changes by itself (free space, lag, predictions).

    ``old_data`` is ``aside`` (moved to ``aside_path`` and removed after verification, or kept where ``keep_old_data``)
    or ``removed_first`` (there is no room for both). ``programs`` are paths: ``source.backup``, ``source.client``,
    ``target.backup``, ``target.unpack``, ``target.client``. ``pause_source`` tells whether the source's replication is stopped
    during the copy, and ``pause_reason`` why or why not. ``prepare_memory_bytes`` and ``prepare_options`` are what the backup tool is
    given to apply the redo log, and ``prepare_reasons`` why (``engine.tuning.prepare``). ``archive`` is the finished backup that is read
    instead of the source's server. ``copied_by`` is, in a plan of what follows a rebuild, the method that made the copy.
    """

    method: str
    target: PlannedInstance
    source: PlannedInstance
    primary: PlannedInstance
    flavor: str
    findings: tuple[Finding, ...]
    steps: tuple[PlannedStep, ...]
    destroys: tuple[str, ...]
    old_data: str
    aside_path: str
    keep_old_data: bool
    pause_source: bool
    pause_reason: str
    cipher: str
    parallel: int
    prepare_memory_bytes: int
    bytes_to_copy: int | None
    predicted_seconds: float | None
    uses_gtid: bool
    replication_user: str = ""
    #: whether settings of the target are relaxed while it rolls forward, and how many parallel appliers it has meanwhile at least
    relaxes: bool = False
    appliers: int = 0
    programs: dict[str, str] = field(default_factory=dict)
    facts_observed_at: dict[str, datetime] = field(default_factory=dict)
    prepare_options: tuple[str, ...] = ()
    prepare_reasons: tuple[str, ...] = ()
    archive: Archive | None = None
    copied_by: str = ""
    #: why the stream is as it is: its cipher, its threads
    stream_reasons: tuple[str, ...] = ()
    #: threads of zstd on the source, 0 where the stream is not compressed
    compress_threads: int = 0
    #: whether those are the backup tool's own, and the unpacking tool expands; else zstd is a stage of the pipe at both ends
    compresses_itself: bool = False
    #: threads that unpack on the target, 0 in plans that were made before they were counted: then as many as copy
    unpack_threads: int = 0

    @property
    def pipe_threads(self) -> int:
        """Return the threads of zstd in the pipe, 0 where it is no stage of it."""
        return 0 if self.compresses_itself else self.compress_threads

    @property
    def refusals(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity is Severity.REFUSAL)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity is Severity.WARNING)

    @property
    def is_possible(self) -> bool:
        return not self.refusals

    @property
    def fingerprint(self) -> str:
        """Return 64 hex digits over what was shown and may not change between the page and the click."""
        frozen: dict[str, Any] = {
            "method": self.method,
            "parties": [to_record(party) for party in (self.target, self.source, self.primary)],
            "steps": [(step.name, self._settled(step.commands)) for step in self.steps],
            "destroys": self.destroys,
            "old_data": [self.old_data, self.aside_path, self.keep_old_data],
            "pause": self.pause_source,
            "warnings": sorted(finding.accepted_as for finding in self.findings if finding.severity is not Severity.OK),
        }
        if self.archive:
            frozen["archive"] = [self.archive.run, self.archive.path, self.archive.sha256]
        return hashlib.sha256(json.dumps(frozen, sort_keys=True).encode()).hexdigest()

    def _settled(self, commands: tuple[PlannedCommand, ...]) -> list[tuple[str, str]]:
        """The memory to prepare or load with follows the free memory and the rate of writes, which change by themselves."""
        pattern = re.compile(rf"(--use-memory|--innodb-buffer-pool-size)={self.prepare_memory_bytes}\b")
        return [(command.place, pattern.sub(r"\1=...", command.text)) for command in commands]
