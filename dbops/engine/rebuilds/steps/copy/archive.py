"""Read a finished backup: open access to its file, and stream the file in one pass into the new data directory."""

from contextlib import suppress
from dataclasses import asdict

from dbops.engine.backups.archives import Archive
from dbops.engine.errors import Unreachable
from dbops.engine.flavors import flavor_for
from dbops.engine.hosts.jobs import IN_BASH, REFUSED_STATUS, job_must_succeed, pairs
from dbops.engine.hosts.scripts import load
from dbops.engine.hosts.ssh import show
from dbops.engine.hosts.tool_output import decode_files
from dbops.engine.phrases import phrase
from dbops.engine.ports import JobState
from dbops.engine.rebuilds.archive_check import FetchEvidence, judge_fetch
from dbops.engine.rebuilds.copy_check import CopyEvidence
from dbops.engine.rebuilds.plan import Plan, PlannedCommand
from dbops.engine.rebuilds.steps.commands import pull_command, transport_command, unpack_command
from dbops.engine.rebuilds.steps.copy.stream import Stream, metadata_file_names
from dbops.engine.rebuilds.steps.preflight.data_location import describe_data_location
from dbops.engine.rebuilds.steps.preflight.live_check import OpenAccess, check_access, check_account
from dbops.engine.rebuilds.steps.run import Run, StepOutcome, done
from dbops.engine.rebuilds.steps.source.access import file_words, let_in_to_read, make_key


def archive_of(plan: Plan) -> Archive:
    """Return the backup that a plan reads. Raises ``ValueError`` if it reads none: such a plan is never confirmed."""
    if plan.archive is None:
        raise ValueError(f"the plan of {plan.target.name} names no backup")
    return plan.archive


class OpenArchive(OpenAccess):
    """Install this run's key and a forced command that sends one file. The server there stays untouched, so no guard is needed."""

    title = phrase("Open access from the target to the backup")

    def commands(self, plan: Plan) -> tuple[PlannedCommand, ...]:
        return (
            PlannedCommand(plan.target.name, "ssh-keygen -t ed25519 -f key   # a key for this run only"),
            PlannedCommand(
                plan.source.name,
                'authorized_keys += restrict,command="serve",from="..."   # sends this file alone; taken away at the end, and it expires',
            ),
        )

    def advance(self, run: Run) -> StepOutcome:
        check_account(run)
        public_key = make_key(run)
        run.checkpoint["source_opened"], run.checkpoint["source_closed"] = True, False
        let_in_to_read(run, archive_of(run.plan), public_key, "open.source")
        check_access(run)
        return done()


class Fetch(Stream):
    """Fetch, decompress and unpack the backup in one pass; the checksum is computed on the way."""

    title = phrase("Fetch the backup into the data directory")

    def commands(self, plan: Plan) -> tuple[PlannedCommand, ...]:
        if plan.archive is None:
            return ()
        pull = show(transport_command(plan, directory="RUN", address=plan.source.ssh_address))
        unpack = show(unpack_command(plan, flavor_for(plan.source.version, plan.flavor)))
        return (
            PlannedCommand(plan.source.name, show(["cat", "--", plan.archive.path])),
            PlannedCommand(plan.target.name, f"{pull} backup | tee >(sha256sum) | zstd -q -d -c | {unpack}"),
        )

    def start(self, run: Run) -> JobState:
        unpack = unpack_command(run.plan, run.flavor)
        pull = [*pull_command(run), "backup"]
        run.checkpoint["stream.began"] = run.clock.now()
        run.checkpoint.pop("left_tree", None)  # the directory content after the swap is about to change
        words = show(["cat", "--", file_words(archive_of(run.plan))[0]])
        run.journal.command("stream.backup", run.source.party.host, words)
        return run.start_job(
            run.target,
            self.name,
            f"{show(pull)} | tee >(sha256sum) | zstd -q -d -c | {show(unpack)}",
            load("common", "pipes", "fetch"),
            run.plan.target.datadir,
            run.checkpoint["new_identity"],
            run.copy_run,
            run.plan.target.os_user,
            " ".join(metadata_file_names(run)),
            str(len(unpack)),
            *unpack,
            *pull,
        )

    def follow(self, run: Run, state: JobState) -> None:
        self.count(run, state)

    def finish(self, run: Run, state: JobState) -> StepOutcome:
        archive, evidence = archive_of(run.plan), read_evidence(run, state, self.name, reader="unpack")
        statuses, tails = keep_result(run, evidence, reader="unpack")
        must_have_begun(run, state, phrase("Unpacking into the new data directory"))
        checkpoints = judge_fetch(run.flavor, archive, evidence)
        received = state.counters.get("unpack.read_bytes", run.checkpoint.get("stream.bytes"))
        seconds = (state.ended_at or 0) - (state.started_at or 0)
        run.checkpoint["checkpoints"] = asdict(checkpoints)
        run.checkpoint["stream.bytes"] = received
        self._remember_position(run, evidence.copy)
        run.journal.progress(bytes=received, total_bytes=received, percent=100.0)
        run.journal.say(
            phrase("The backup of run {run} arrived completely: the checksum matches.", run=archive.run),
            host=run.target.party.host,
        )
        return done(exit_statuses=statuses, tails=tails, bytes=received, seconds=seconds)

    def cancel(self, run: Run) -> None:
        """End the unpacking and wait until it has ended; then end the sender."""
        self.stopped(run, run.target.jobs.stop(self.name))
        end_sending(run)


def read_evidence(run: Run, state: JobState, job: str, *, reader: str) -> FetchEvidence:
    """Return the results of both ends for a sent file. Raises as ``Jobs.act`` and ``Jobs.read``.

    Args:
        state: of the ended job on the target.
        job: its name.
        reader: the stage that read the decompressed data.
    """
    found = pairs(run.source.jobs.act(IN_BASH, "echo status=$(cat backup.status 2>/dev/null)").stdout)
    kept = decode_files(run.source.jobs.act(IN_BASH, load("common", "tool_account", "read_source")).stdout)
    return FetchEvidence(
        copy=CopyEvidence(
            source_status=int(found["status"]) if found.get("status") else None,
            transport_status=state.stages.get("transport"),
            unpack_status=state.stages.get(reader),
            source_log=kept.get("backup.log", "")[-2000:],
            transport_log=state.tails.get("transport", ""),
            unpack_log=state.tails.get(reader, ""),
            target_files=decode_files(run.target.jobs.read(job, "files", limit=1024**2).decode()),
        ),
        statuses={
            name: state.stages.get(name) for name in ("transport", "see", "decompress", reader, *_SERVED[reader])
        },
        decompress_log=state.tails.get("decompress", ""),
        sum=state.tails.get("sum", "").strip(),
    )


#: Stages after the reader: a dump is read by a server of its own.
_SERVED: dict[str, tuple[str, ...]] = {"unpack": (), "load": ("server",)}


def keep_result(run: Run, evidence: FetchEvidence, *, reader: str) -> tuple[dict[str, int | None], dict[str, str]]:
    """Complete the source's command and remember the step's result. Return exit statuses and last lines by stage."""
    copy = evidence.copy
    statuses = {"source": copy.source_status, **evidence.statuses}
    tails = {
        "source": copy.source_log,
        "transport": copy.transport_log,
        "decompress": evidence.decompress_log,
        reader: copy.unpack_log,
    }
    run.journal.finished("stream.backup", copy.source_status, copy.source_log)
    run.checkpoint["stream.result"] = {"exit_statuses": statuses, "tails": tails}
    return statuses, tails


def must_have_begun(run: Run, state: JobState, operation: str) -> None:
    """Raise the cause of a job that ended before its pipe began (``job_must_succeed``)."""
    if state.exit_status != 0 and (state.exit_status == REFUSED_STATUS or not state.stages):
        job_must_succeed(state, operation, left=lambda: describe_data_location(run))


def end_sending(run: Run) -> None:
    """End the sender on the source; one that does not answer ends with the broken pipe."""
    with suppress(Unreachable):
        run.source.jobs.act(IN_BASH, load("release") + "\nend_backup\n")
