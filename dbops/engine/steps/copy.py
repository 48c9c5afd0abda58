"""From the old data to the new: stop the target and move its data aside, then stream."""

from dataclasses import asdict

from dbops.engine.errors import RemoteFailure
from dbops.engine.evidence import CopyEvidence, decode_files, first_of, judge_copy
from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.logs import stuck_redo
from dbops.engine.pipeline import show
from dbops.engine.plan import Plan, PlannedCommand
from dbops.engine.ports import JobState
from dbops.engine.progress import add_sample, copy_progress
from dbops.engine.scripts import load
from dbops.engine.states import Level
from dbops.engine.steps.base import JobStep, job_must_succeed
from dbops.engine.steps.commands import backup_command, pull_command, transport_command, unpack_command
from dbops.engine.steps.run import IN_BASH, Outcome, Run, done, pairs
from dbops.engine.steps.whereabouts import old_data
from dbops.engine.words import split_command

#: Lines of the source's log that are remembered to see whether its redo copier stands still; it retries once a second.
STUCK_LINES = 120


#: How often the source is looked at while it is read; every look costs its host some processes.
WATCH_SECONDS = 3.0
#: How often the guard on the source hears of us while the source has nothing to do.
BEAT_SECONDS = 10.0


class TakeOver(JobStep):
    """Check once more on the host itself, stop the server, move its data aside: one script, nothing between check and act."""

    name = "take-over"
    title = "Stop the target and move its data aside"

    def commands(self, plan: Plan) -> tuple[PlannedCommand, ...]:
        target = plan.target
        move = (
            f"mv -T -n {target.datadir} {plan.aside_path}"
            if plan.aside_path
            else f"find {target.datadir} -xdev -mindepth 1 -delete"
        )
        return (
            PlannedCommand(
                target.name, "# on the host: identity, role and replicas are checked again, or nothing is done"
            ),
            PlannedCommand(target.name, target.stop_command),
            PlannedCommand(target.name, move),
            PlannedCommand(target.name, f"install -d -o {target.os_user} {target.datadir}"),
        )

    def start(self, run: Run) -> JobState:
        target, plan, admin = run.plan.target, run.plan, run.accounts.admin
        run.memory["touched"] = True
        return run.start_job(
            run.target,
            self.name,
            "\n".join(command.text for command in self.commands(plan)),
            load("common", "take_over"),
            target.datadir,
            target.datadir_identity,
            "1" if target.is_answering else "0",
            str(target.server_id or ""),
            target.server_uuid,
            target.socket,
            plan.aside_path,
            target.os_user,
            plan.programs["target.client"],
            *split_command(target.stop_command),
            secrets={"admin.cnf": run.flavor.credentials_file(admin.user, admin.password)},
        )

    def follow(self, run: Run, state: JobState) -> None:
        """A large server takes long to stop; meanwhile the guard on the source must not take us for dead."""
        now = run.clock.now()
        if now - run.memory.get("take-over.beat", 0.0) >= BEAT_SECONDS:
            run.memory["take-over.beat"] = now
            run.source.jobs.act("touch heartbeat")
        run.journal.progress(note="stopping the server, moving its data")

    def finish(self, run: Run, state: JobState) -> Outcome:
        job_must_succeed(state, f"Stopping {run.plan.target.name} and moving its data aside")
        told = pairs(state.tails.get("out", ""))
        run.memory["new_identity"] = told["identity"]
        run.memory["aside_identity"] = told.get("aside_identity", "")
        run.memory["aside_path"] = run.plan.aside_path if told.get("aside_identity") else ""
        target = run.plan.target
        run.journal.say(f"{target.name} is stopped. {old_data(run)}", host=target.host)
        return done(exit_statuses={"take over": 0})


class Stream(JobStep):
    """Pull the backup from the source straight into the new data directory."""

    name = "stream"
    title = "Stream the backup from the source into the data directory"

    def commands(self, plan: Plan) -> tuple[PlannedCommand, ...]:
        flavor = flavor_for(plan.source.version, plan.flavor)
        pull = show(transport_command(plan, directory="RUN", address=plan.source.ssh_address))
        return (
            PlannedCommand(plan.source.name, show(backup_command(plan, flavor, "RUN"))),
            PlannedCommand(plan.target.name, f"{pull} backup | {show(unpack_command(plan, flavor))}"),
        )

    def start(self, run: Run) -> JobState:
        unpack = unpack_command(run.plan, run.flavor)
        pull = [*pull_command(run), "backup"]
        run.memory["stream.began"] = run.clock.now()
        run.journal.command(
            "stream.backup",
            run.source.party.host,
            show(backup_command(run.plan, run.flavor, run.source.jobs.run_directory)),
        )
        return run.start_job(
            run.target,
            self.name,
            f"{show(pull)} | {show(unpack)}",
            load("common", "stream"),
            run.plan.target.datadir,
            run.memory["new_identity"],
            run.plan.target.os_user,
            " ".join(_proof_files(run)),
            str(len(unpack)),
            *unpack,
            *pull,
        )

    def follow(self, run: Run, state: JobState) -> None:
        if run.clock.now() - run.memory.get("stream.watched", 0.0) >= WATCH_SECONDS:
            self._watch_source(run)
        received, now = state.counters.get("unpack.read_bytes"), run.clock.now()
        if received is None:
            return
        samples = run.memory["stream.samples"] = add_sample(
            run.memory.get("stream.samples", []), at=now, count=received
        )
        run.memory["stream.bytes"] = received
        run.journal.progress(
            **copy_progress(
                samples,
                received_bytes=received,
                total_bytes=run.plan.bytes_to_copy,
                elapsed_seconds=now - run.memory["stream.began"],
            )
        )

    def _watch_source(self, run: Run) -> dict[str, str]:
        """Beat for the guard, and bring what the backup tool has said since the last look into the history."""
        run.memory["stream.watched"] = run.clock.now()
        offset = run.memory.get("stream.log_offset", 0)
        result = run.source.jobs.act(IN_BASH, load("release", "beat_source"), str(offset))
        head, _, log = result.stdout.partition("\nlog=\n")
        told = pairs(head)
        lines = log.split("\n")
        complete, rest = lines[:-1], lines[-1]
        run.memory["stream.log_offset"] = offset + len(log.encode()) - len(rest.encode())
        self._give_up_if_stuck(run, complete)
        for line in complete:
            parsed = run.flavor.parse_backup_line(line)
            if parsed.kind in ("milestone", "error", "completed"):
                level = Level.ERROR if parsed.kind == "error" else Level.INFO
                run.journal.say(parsed.text, level=level, host=run.source.party.host)
        return told

    def _give_up_if_stuck(self, run: Run, lines: list[str]) -> None:
        """MariaDB's redo copier retries at one place until the copy ends, and only then fails: hours for nothing."""
        recent = run.memory["stream.recent"] = [*run.memory.get("stream.recent", []), *lines][-STUCK_LINES:]
        lsn = stuck_redo(recent, times=STUCK_LINES // 2)
        if lsn is not None:
            raise RemoteFailure(
                "backup.redo_stuck",
                "Copying the source's redo log",
                found=f"the backup tool has been at LSN {lsn} for {STUCK_LINES // 2} tries: the redo log was overwritten there",
                left="The copy was ended; it could not have succeeded.",
                next_step="Raise the source's redo log capacity, or rebuild at an hour with fewer writes.",
            )

    def finish(self, run: Run, state: JobState) -> Outcome:
        told = self._watch_source(run)
        evidence = self._evidence(run, state, told)
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
        run.memory["stream.result"] = {"exit_statuses": statuses, "tails": tails}
        if state.exit_status == 65:
            job_must_succeed(state, "Unpacking into the new data directory")
        info, checkpoints = judge_copy(run.flavor, evidence)
        received = state.counters.get("unpack.read_bytes", run.memory.get("stream.bytes"))
        seconds = (state.ended_at or 0) - (state.started_at or 0)
        run.memory["checkpoints"] = asdict(checkpoints)
        run.memory["stream.bytes"] = received
        self._remember_position(run, evidence)
        run.journal.progress(
            bytes=received, total_bytes=received, percent=100.0, average_bytes_per_second=_rate(received, seconds)
        )
        run.journal.say(
            f"The copy is whole: backup {info.uuid}, up to LSN {checkpoints.last_lsn}.", host=run.target.party.host
        )
        return done(exit_statuses=statuses, tails=tails, bytes=received, seconds=seconds)

    def _evidence(self, run: Run, state: JobState, told: dict[str, str]) -> CopyEvidence:
        kept = decode_files(run.source.jobs.act(IN_BASH, load("read_source"), *_proof_files(run)).stdout)
        arrived = decode_files(run.target.jobs.read(self.name, "files", limit=1024**2).decode())
        return CopyEvidence(
            source_status=int(told["status"]) if told.get("status") else None,
            transport_status=state.stages.get("transport"),
            unpack_status=state.stages.get("unpack"),
            source_log=kept.pop("backup.log", ""),
            transport_log=state.tails.get("transport", ""),
            unpack_log=state.tails.get("unpack", ""),
            source_files=kept,
            target_files=arrived,
        )

    def _remember_position(self, run: Run, evidence: CopyEvidence) -> None:
        """The copy will replicate from the source first: so the source's own binary log position counts."""
        start = run.flavor.parse_binlog_info(first_of(run.flavor, "binlog", evidence.target_files) or "")
        run.memory["position"] = asdict(start)

    def cancel(self, run: Run) -> None:
        super().cancel(run)
        run.source.jobs.act(IN_BASH, load("release") + "\nend_backup\n")


def _proof_files(run: Run) -> list[str]:
    kinds = ("info", "checkpoints", "binlog", "slave", "last")
    return list(dict.fromkeys(name for kind in kinds for name in run.flavor.metadata_files[kind]))


def _rate(size: int | None, seconds: float) -> float | None:
    return size / seconds if size and seconds > 0 else None
