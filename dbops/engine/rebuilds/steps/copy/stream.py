"""Stream the backup from the source straight into the new data directory."""

from contextlib import suppress
from dataclasses import asdict, replace

from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.flavors import Flavor, flavor_for
from dbops.engine.flavors.failures import DISK_FULL, known_failure
from dbops.engine.flavors.logs import stuck_redo, whole_positions
from dbops.engine.flavors.write_lock import WriteLock, follow_write_lock, write_lock_seconds
from dbops.engine.hosts import stall
from dbops.engine.hosts.jobs import IN_BASH, REFUSED_STATUS, job_must_succeed, pairs
from dbops.engine.hosts.progress import add_sample, copy_progress
from dbops.engine.hosts.scripts import load
from dbops.engine.hosts.ssh import show
from dbops.engine.hosts.tool_output import decode_files, first_of
from dbops.engine.phrases import joined, phrase
from dbops.engine.ports import JobState
from dbops.engine.rebuilds.copy_check import CopyEvidence, judge_copy
from dbops.engine.rebuilds.metrics import figures_of
from dbops.engine.rebuilds.plan import Plan, PlannedCommand
from dbops.engine.rebuilds.steps.base import JobStep
from dbops.engine.rebuilds.steps.commands import (
    backup_command,
    expand_words,
    pull_command,
    transport_command,
    unpack_command,
)
from dbops.engine.rebuilds.steps.copy.origin import must_be_of_source
from dbops.engine.rebuilds.steps.copy.shared_read import (
    ASK_SECONDS,
    follow_sender,
    is_leader,
    may_stream,
    refuse_dropped,
)
from dbops.engine.rebuilds.steps.preflight.data_location import describe_data_location
from dbops.engine.rebuilds.steps.run import Run, StepOutcome, again, done
from dbops.engine.rebuilds.steps.source.access import BEAT_SECONDS, SILENT_SECONDS, keep_open, rearm
from dbops.engine.rebuilds.steps.source.throttle import begin_held, count_link, pass_rate_on
from dbops.engine.states import Level

#: Remembered lines of the source's log for detecting a stuck redo copier; it retries once a second.
STUCK_LINES = 120


#: Time between two checks of the source during the read; every check costs its host some processes.
WATCH_SECONDS = 3.0


class Stream(JobStep):
    """Pull the backup from the source straight into the new data directory."""

    name = "stream"
    title = phrase("Stream the backup from the source into the data directory")

    def commands(self, plan: Plan) -> tuple[PlannedCommand, ...]:
        flavor = flavor_for(plan.source.version, plan.flavor)
        pull = show(transport_command(plan, directory="RUN", address=plan.source.ssh_address))
        return (
            PlannedCommand(plan.source.name, _sent(plan, flavor, "RUN")),
            PlannedCommand(plan.target.name, f"{pull} backup | {_received(plan, flavor)}"),
        )

    def advance(self, run: Run) -> StepOutcome:
        return super().advance(run) if may_stream(run) else again(ASK_SECONDS)

    def start(self, run: Run) -> JobState:
        keep_open(run, at_once=True)
        unpack = unpack_command(run.plan, run.flavor)
        expand, pull = expand_words(run.plan), [*pull_command(run), "backup"]
        run.checkpoint["stream.began"] = run.clock.now()
        run.checkpoint.pop("left_tree", None)  # from here on only the end of the stream can tell the content
        run.journal.command(
            "stream.backup",
            run.source.party.host,
            _sent(run.plan, run.flavor, run.source.jobs.run_directory),
        )
        return run.start_job(
            run.target,
            self.name,
            f"{show(pull)} | {_received(run.plan, run.flavor)}",
            load("common", "pipes", "stream"),
            run.plan.target.datadir,
            run.checkpoint["new_identity"],
            run.copy_run,
            run.plan.target.os_user,
            " ".join(metadata_file_names(run)),
            str(len(expand)),
            str(len(unpack)),
            str(begin_held(run) or ""),
            *expand,
            *unpack,
            *pull,
        )

    def stall_seconds(self, run: Run) -> float:
        """Return how long the stream may be silent: after the source has sent everything, unpacking may continue silently."""
        settings = run.settings
        return settings.stall_unpack_seconds if run.checkpoint.get("stream.sent") else settings.stall_stream_seconds

    def signs(self, run: Run, state: JobState) -> str:
        # not of ssh: its keepalives continue while the source's sshd lives, even if no byte of the backup moves
        counters = {name: count for name, count in state.counters.items() if name.startswith("unpack.")}
        return stall.signs_of(counters, state.tails, run.checkpoint.get("stream.log_offset"))

    def follow(self, run: Run, state: JobState) -> None:
        self._give_up_if_full(run, state)
        pass_rate_on(run)
        self._watch_source_if_due(run)
        self.count(run, state)

    def count(self, run: Run, state: JobState) -> None:
        """Record how much was unpacked."""
        received, now = state.counters.get(_unpacked(run.plan)), run.clock.now()
        if received is None:
            return
        samples = run.checkpoint["stream.samples"] = add_sample(
            run.checkpoint.get("stream.samples", []), at=now, count=received
        )
        run.checkpoint["stream.bytes"] = received
        count_link(run, state)
        run.journal.measured(replace(figures_of(state.counters, "unpack"), bytes=received))
        run.journal.progress(
            **copy_progress(
                samples,
                received_bytes=received,
                total_bytes=run.plan.bytes_to_copy,
                elapsed_seconds=now - run.checkpoint["stream.began"],
            )
        )

    def _watch_source_if_due(self, run: Run) -> None:
        """Check the source. A source that does not answer may continue sending: only the end of the copy requires it."""
        if run.clock.now() < run.checkpoint.get("stream.watch_at", 0.0):
            return
        try:
            self._watch_source(run)
            follow_sender(run)
        except Unreachable as error:
            run.checkpoint["stream.watch_at"] = run.clock.now() + SILENT_SECONDS
            if not run.checkpoint.get("stream.source_silent"):
                text = phrase(
                    "The source does not respond to dbops. The copy continues unobserved there: {cause}",
                    cause=error.cause,
                )
                run.journal.say(text, level=Level.WARNING, host=run.source.party.host)
            run.checkpoint["stream.source_silent"] = True

    def _watch_source(self, run: Run) -> dict[str, str]:
        """Send the heartbeat to the guard, and record the backup tool's messages since the last check."""
        offset = run.checkpoint.get("stream.log_offset", 0)
        result = run.source.jobs.act(IN_BASH, load("release", "source_heartbeat"), str(offset))
        head, _, log = result.stdout.partition("\nlog=\n")
        found = pairs(head)
        run.checkpoint["stream.watch_at"] = run.clock.now() + WATCH_SECONDS
        run.checkpoint["stream.sent"] = bool(found.get("status"))
        if run.checkpoint.pop("stream.source_silent", False):
            run.journal.say(phrase("The source responds to dbops again."), host=run.source.party.host)
        run.checkpoint["source.beat_at"] = run.clock.now() + BEAT_SECONDS
        if not found.get("guard") and not found.get("given_back"):
            rearm(run, "")
        lines = log.split("\n")
        complete, count = whole_positions(lines[:-1])
        rest = "\n".join(lines[count:])
        run.checkpoint["stream.log_offset"] = offset + len(log.encode()) - len(rest.encode())
        self._give_up_if_stuck(run, complete)
        locked = follow_write_lock(complete, WriteLock(**run.checkpoint.get("stream.write_lock", {})))
        run.checkpoint["stream.write_lock"] = asdict(locked)
        for line in complete:
            parsed = run.flavor.parse_backup_line(line)
            if parsed.kind in ("milestone", "error", "completed"):
                level = Level.ERROR if parsed.kind == "error" else Level.INFO
                run.journal.say(parsed.text, level=level, host=run.source.party.host)
        return found

    def _give_up_if_stuck(self, run: Run, lines: list[str]) -> None:
        """End a stuck redo copier: MariaDB's retries at one place until the copy ends, and only then fails, hours later."""
        recent = run.checkpoint["stream.recent"] = [*run.checkpoint.get("stream.recent", []), *lines][-STUCK_LINES:]
        lsn = stuck_redo(recent, times=STUCK_LINES // 2)
        if lsn is not None:
            raise RemoteFailure(
                "backup.redo_stuck",
                phrase("Copying the source's redo log"),
                cause=phrase(
                    "the backup tool has been at LSN {lsn} for {attempts} attempts: the redo log was overwritten",
                    lsn=lsn,
                    attempts=STUCK_LINES // 2,
                ),
            )

    def _give_up_if_full(self, run: Run, state: JobState) -> None:
        """End an unpacker after a failed write: an expanding xbstream ignores it, reads the whole stream and ends with 0 (its source)."""
        said = state.tails.get("unpack", "")
        known = known_failure(said.splitlines()) if run.plan.compresses_itself else None
        if known is not None and known.code == DISK_FULL:
            raise RemoteFailure(
                "stream.disk_full",
                phrase("Unpacking into the new data directory"),
                cause=phrase(
                    "{sentence} The unpacking tool wrote: {said}", sentence=known.sentence, said=said.strip()[-500:]
                ),
                state=phrase(
                    "dbops stopped the copy. {location}",
                    location=describe_data_location(run),
                ),
            )

    def finish(self, run: Run, state: JobState) -> StepOutcome:
        found = self._watch_source(run)
        evidence = self._evidence(run, state, found)
        run.journal.finished("stream.backup", evidence.source_status, evidence.source_log[-2000:])
        statuses = {
            "source backup": evidence.source_status,
            "transport": evidence.transport_status,
            "unpack": evidence.unpack_status,
        }
        tails = {
            "source": evidence.source_log[-2000:],
            "transport": evidence.transport_log,
            "unpack": evidence.unpack_log,
        }
        run.checkpoint["stream.result"] = {"exit_statuses": statuses, "tails": tails}
        if state.exit_status != 0 and (state.exit_status == REFUSED_STATUS or not state.stages):
            job_must_succeed(
                state, phrase("Unpacking into the new data directory"), left=lambda: describe_data_location(run)
            )
        self._source_was_ours(run, found)
        refuse_dropped(run, evidence)
        info, checkpoints = judge_copy(run.flavor, evidence)
        received = state.counters.get(_unpacked(run.plan), run.checkpoint.get("stream.bytes"))
        seconds = (state.ended_at or 0) - (state.started_at or 0)
        run.checkpoint["checkpoints"] = asdict(checkpoints)
        run.checkpoint["stream.bytes"] = received
        self._remember_position(run, evidence)
        run.journal.progress(
            bytes=received, total_bytes=received, percent=100.0, average_bytes_per_second=_rate(received, seconds)
        )
        run.journal.say(
            phrase(
                "The copy is complete: backup {uuid}, up to LSN {last_lsn}.",
                uuid=info.uuid,
                last_lsn=checkpoints.last_lsn,
            ),
            host=run.target.party.host,
        )
        locked = run.checkpoint["stream.write_lock"]["seconds"]
        if locked is None:  # the log was written faster than it was read
            record = first_of(run.flavor, "info", evidence.target_files) or ""
            locked = write_lock_seconds(run.flavor, evidence.source_log.splitlines(), record)
        if locked is not None:
            run.journal.say(
                phrase("Writes on the source waited {seconds} s for the copy.", seconds=f"{locked:.1f}"),
                host=run.source.party.host,
            )
        return done(exit_statuses=statuses, tails=tails, bytes=received, seconds=seconds, write_lock_seconds=locked)

    def _source_was_ours(self, run: Run, found: dict[str, str]) -> None:
        """Raise the guard's reason if it ended the backup after a silence: it is the first cause, not the broken pipe."""
        if found.get("given_back") and found.get("status") != "0":
            raise RemoteFailure(
                "source.given_back",
                phrase("Copying from {source}", source=run.source.party.name),
                cause=phrase("its guard ended the backup: {reason}", reason=found["given_back"]),
                state=joined((phrase("Replication on the source is running."), describe_data_location(run))),
            )

    def _evidence(self, run: Run, state: JobState, found: dict[str, str]) -> CopyEvidence:
        kept = decode_files(
            run.source.jobs.act(
                IN_BASH, load("common", "tool_account", "read_source"), *metadata_file_names(run)
            ).stdout
        )
        arrived = decode_files(run.target.jobs.read(self.name, "files", limit=1024**2).decode())
        return CopyEvidence(
            source_status=int(found["status"]) if found.get("status") else None,
            transport_status=state.stages.get("transport"),
            unpack_status=state.stages.get("unpack") or state.stages.get("expand", state.stages.get("unpack")),
            source_log=kept.pop("backup.log", ""),
            transport_log=state.tails.get("transport", ""),
            unpack_log=f"{state.tails.get('expand', '')}{state.tails.get('unpack', '')}",
            source_files=kept,
            target_files=arrived,
        )

    def _remember_position(self, run: Run, evidence: CopyEvidence) -> None:
        """Keep the source's own binary log position: the copy replicates from the source first."""
        start = run.flavor.parse_binlog_info(first_of(run.flavor, "binlog", evidence.target_files) or "")
        must_be_of_source(run, start)
        run.checkpoint["position"] = asdict(start)

    def stopped(self, run: Run, state: JobState) -> None:
        """Keep what the host found in the data directory when the stream failed."""
        super().stopped(run, state)
        if tree := state.tails.get("tree", "").strip():
            run.checkpoint["left_tree"] = tree

    def cancel(self, run: Run) -> None:
        """End the unpacking and wait until it has ended; the guard ends the backup on a source that does not answer."""
        super().cancel(run)
        if is_leader(run):
            return  # its sender continues for the followers, and ends the backup when no target is left
        with suppress(Unreachable):
            run.source.jobs.act(IN_BASH, load("release") + "\nend_backup\n")
            kept = decode_files(run.source.jobs.act(IN_BASH, load("common", "tool_account", "read_source")).stdout)
            result = run.checkpoint.setdefault("stream.result", {"exit_statuses": {}, "tails": {}})
            result["tails"].setdefault("source", kept.get("backup.log", "")[-2000:])


def _sent(plan: Plan, flavor: Flavor, directory: str) -> str:
    """Return the sent command as a person would type it."""
    tool = show(backup_command(plan, flavor, directory))
    return f"{tool} | {plan.programs['source.compress']} -q -1 -c -T{plan.pipe_threads}" if plan.pipe_threads else tool


def _received(plan: Plan, flavor: Flavor) -> str:
    unpack = show(unpack_command(plan, flavor))
    return f"{show(expand_words(plan))} | {unpack}" if plan.pipe_threads else unpack


def _unpacked(plan: Plan) -> str:
    """Return the counter of unpacked bytes: the unpacking tool's reads, or its writes if it expands the stream."""
    return "unpack.write_bytes" if plan.compresses_itself else "unpack.read_bytes"


def metadata_file_names(run: Run) -> list[str]:
    kinds = ("info", "checkpoints", "binlog", "slave", "last")
    return list(dict.fromkeys(name for kind in kinds for name in run.flavor.metadata_files[kind]))


def _rate(size: int | None, seconds: float) -> float | None:
    return size / seconds if size and seconds > 0 else None
