"""The plan of a rebuild: shown to a person, confirmed, and then run without a change."""

import hashlib
import json
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from dbops.engine.backups.archives import Archive
from dbops.engine.facts.instance import to_record
from dbops.engine.rebuilds.kept_replication import KeptReplication
from dbops.engine.states import BackupMethod, Severity

#: Findings whose full text counts. The text of others (connections, lag) changes on its own.
EXACT_CODES = frozenset({"source.memory_tables", "target.errant"})
#: The finding on the server that the target follows: it changes with the state of an intermediate replica.
CHAINED = "target.chained"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one pre-flight check. ``code`` is an entry of ``docs/reference/checks.md``."""

    code: str
    severity: Severity
    title: str
    seen: str
    advice: str = ""

    @property
    def accepted_as(self) -> str:
        """The part of this finding that a person accepts: its code, or the full text if data is lost for good."""
        return f"{self.code}: {self.seen}" if self.code in EXACT_CODES else self.code


@dataclass(frozen=True, slots=True)
class PlannedCommand:
    """One command or statement to run, with secrets masked. ``place`` is an instance's name."""

    place: str
    text: str


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step of the plan.

    ``predicted_seconds``: the p50 of ``predicted_runs`` past runs, ``None`` without any. ``predicted_p90_seconds``: the p90, ``None`` also
    with too few. ``is_of_others``: the past runs belong to other clusters.
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
    """One instance of a plan, as its last probe found it. The live check compares it just before anything is stopped.

    ``server_id``, ``server_uuid`` and ``version`` are empty if the server did not answer. ``machine`` is the host's own identity
    (name and machine id): address, host key and inodes of a cloned machine equal those of its original.
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
    #: of the option groups that the server reads besides its own (``mysqld@NAME``)
    group_suffix: str = ""
    #: the name in its host certificate, which proves it; empty: the pinned key does
    certificate_name: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole plan of a rebuild. ``fingerprint`` leaves out values that change on their own (free space, lag, predictions).

    ``old_data``: ``aside`` (moved to ``aside_path`` and removed after verification, or kept with ``keep_old_data``) or ``removed_first``
    (not enough space for both). ``programs``: paths by ``source.backup``, ``source.client``, ``target.backup``, ``target.unpack``,
    ``target.client``. ``pause_source``: whether the source's replication is paused during the copy; ``pause_reason``: why or why not.
    ``prepare_memory_bytes`` and ``prepare_options``: settings of the backup tool for applying the redo log; ``prepare_reasons``: why
    (``engine.tuning.prepare``). ``archive``: the finished backup that is read instead of the source's server. ``copied_by``: in the plan
    of a follow-up, the method that made the copy.
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
    #: whether the target's settings are relaxed while it catches up, and the minimum number of parallel appliers during that time
    relaxes: bool = False
    appliers: int = 0
    programs: dict[str, str] = field(default_factory=dict)
    facts_observed_at: dict[str, datetime] = field(default_factory=dict)
    prepare_options: tuple[str, ...] = ()
    prepare_reasons: tuple[str, ...] = ()
    archive: Archive | None = None
    copied_by: str = ""
    #: the reasons for the stream's settings: its cipher, its threads
    stream_reasons: tuple[str, ...] = ()
    #: threads of zstd on the source, 0 if the stream is not compressed
    compress_threads: int = 0
    #: whether the backup tool compresses and the unpacking tool expands; else zstd is a stage of the pipe at both ends
    compresses_itself: bool = False
    #: threads that unpack on the target, 0 in older plans without this field: then as many as copy
    unpack_threads: int = 0
    #: what is kept of the old data directory (``engine.rebuilds.inside``)
    inside: tuple[str, ...] = ()
    #: whether the copy of a running source attaches to the primary at once: the source does not log what it replicates
    skips_source: bool = False
    #: how the target replicated, which the rebuild restores; ``None`` if that is unknown, or in an older plan
    replication: KeptReplication | None = None
    #: how long the certificate compares rows, in seconds, and whether the others are compared after the rebuild
    certificate_seconds: int = 120
    full_certificate: bool = False
    #: the intermediate replica that the target goes back to at the end; ``None``: it stays at the primary
    upstream: PlannedInstance | None = None

    @property
    def follows_primary(self) -> bool:
        """Return whether the copy never replicates from the source: it is of a finished backup, or the source logs too little."""
        return self.archive is not None or self.skips_source

    @property
    def loads_sql(self) -> bool:
        """Return whether the copy is made from statements, so that its files are those of the target's own server."""
        return self.archive is not None and self.archive.method is BackupMethod.DUMP

    @property
    def pipe_threads(self) -> int:
        """Return the threads of zstd in the pipe, 0 if it is not a stage of it."""
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
        """Return 64 hex digits over everything shown that may not change between the page and the click."""
        frozen: dict[str, Any] = {
            "method": self.method,
            "parties": [to_record(party) for party in (self.target, self.source, self.primary)],
            "steps": [(step.name, self._settled(step.commands)) for step in self.steps],
            "destroys": self.destroys,
            "old_data": [self.old_data, self.aside_path, self.keep_old_data],
            "pause": self.pause_source,
            "replication": to_record(self.replication),
            "warnings": sorted(finding.accepted_as for finding in self.findings if finding.severity is not Severity.OK),
        }
        if self.archive:
            frozen["archive"] = [self.archive.run, self.archive.path, self.archive.sha256]
        return hashlib.sha256(json.dumps(frozen, sort_keys=True).encode()).hexdigest()

    def _settled(self, commands: tuple[PlannedCommand, ...]) -> list[tuple[str, str]]:
        """Mask the memory to prepare or load with: it follows free memory and write rate, which change on their own."""
        pattern = re.compile(rf"(--use-memory|--innodb-buffer-pool-size)={self.prepare_memory_bytes}\b")
        return [(command.place, pattern.sub(r"\1=...", command.text)) for command in commands]
