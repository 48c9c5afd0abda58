"""Load a finished dump into an empty data directory, by a separate server without network access."""

from dataclasses import asdict

from dbops.engine.flavors import Flavor, flavor_for
from dbops.engine.flavors.base import Coordinates
from dbops.engine.flavors.dump_load import initialise_command, load_server_options
from dbops.engine.flavors.optionfile import option_words
from dbops.engine.hosts.progress import add_sample, copy_progress
from dbops.engine.hosts.scripts import load
from dbops.engine.hosts.ssh import show
from dbops.engine.phrases import phrase
from dbops.engine.ports import JobState
from dbops.engine.rebuilds.archive_check import judge_load
from dbops.engine.rebuilds.plan import Plan, PlannedCommand
from dbops.engine.rebuilds.steps.base import JobStep
from dbops.engine.rebuilds.steps.commands import pull_command, transport_command
from dbops.engine.rebuilds.steps.copy.archive import (
    archive_of,
    end_sending,
    keep_result,
    must_have_begun,
    read_evidence,
)
from dbops.engine.rebuilds.steps.run import Run, StepOutcome, done


class LoadDump(JobStep):
    """Make an empty data directory, start a server on it that only loads, and let it read the dump during the transfer."""

    name = "stream"
    title = phrase("Load the dump into a new data directory")

    def commands(self, plan: Plan) -> tuple[PlannedCommand, ...]:
        if plan.archive is None:
            return ()
        flavor, target = flavor_for(plan.source.version, plan.flavor), plan.target.name
        pull = show(transport_command(plan, directory="RUN", address=plan.source.ssh_address))
        return (
            PlannedCommand(plan.source.name, show(["cat", "--", plan.archive.path])),
            PlannedCommand(target, show(_initialise(plan, flavor))),
            PlannedCommand(target, f"{show(_server(plan, flavor))} --datadir={plan.target.datadir} --socket=SCRATCH/s"),
            PlannedCommand(
                target,
                f"{pull} backup | tee >(sha256sum) | gzip -d -c | {plan.programs['target.client']} --socket=SCRATCH/s",
            ),
        )

    def start(self, run: Run) -> JobState:
        initialise, server = _initialise(run.plan, run.flavor), _server(run.plan, run.flavor)
        pull = [*pull_command(run), "backup"]
        run.checkpoint["stream.began"] = run.clock.now()
        run.checkpoint.pop("left_tree", None)  # the directory content after the swap is about to change
        run.journal.command("stream.backup", run.source.party.host, show(["cat", "--", archive_of(run.plan).path]))
        return run.start_job(
            run.target,
            self.name,
            "\n".join(command.text for command in self.commands(run.plan)[1:]),
            load("common", "inside", "pipes", "load_dump"),
            run.plan.target.datadir,
            run.checkpoint["new_identity"],
            run.copy_run,
            run.plan.target.os_user,
            run.plan.programs["target.client"],
            *(str(len(words)) for words in (initialise, server, pull)),
            *initialise,
            *server,
            *pull,
        )

    def stall_seconds(self, run: Run) -> float:
        """Return how long loading may be silent: one statement may build an index for a long time."""
        return run.settings.stall_unpack_seconds

    def follow(self, run: Run, state: JobState) -> None:
        received, now = state.counters.get("see.read_bytes"), run.clock.now()
        if received is None:
            run.journal.progress(note=phrase("creating an empty data directory"))
            return
        samples = run.checkpoint["stream.samples"] = add_sample(
            run.checkpoint.get("stream.samples", []), at=now, count=received
        )
        run.checkpoint["stream.bytes"] = received
        run.journal.progress(
            **copy_progress(
                samples,
                received_bytes=received,
                total_bytes=archive_of(run.plan).bytes,
                elapsed_seconds=now - run.checkpoint["stream.began"],
            )
        )

    def finish(self, run: Run, state: JobState) -> StepOutcome:
        archive, evidence = archive_of(run.plan), read_evidence(run, state, self.name, reader="load")
        statuses, tails = keep_result(run, evidence, reader="load")
        must_have_begun(run, state, phrase("Loading the dump"))
        judge_load(archive, evidence)
        seconds = (state.ended_at or 0) - (state.started_at or 0)
        run.checkpoint |= {
            "stream.bytes": archive.bytes,
            "position": asdict(Coordinates(gtid=archive.gtid)),
            # Nothing is left to prepare, and the loading server made the files: a resume of this copy begins with the start.
            "loaded": True,
            "done_before": ["set-ownership", "prepare"],
        }
        run.journal.progress(bytes=archive.bytes, total_bytes=archive.bytes, percent=100.0)
        run.journal.say(
            phrase("The dump of run {run} was loaded completely: the checksum matches.", run=archive.run),
            host=run.target.party.host,
        )
        return done(exit_statuses=statuses, tails=tails, bytes=archive.bytes, seconds=seconds)

    def cancel(self, run: Run) -> None:
        """End the loading and its server, and wait until they have ended; then end the sender."""
        super().cancel(run)
        end_sending(run)


def _initialise(plan: Plan, flavor: Flavor) -> list[str]:
    program = plan.programs["target.install"]
    target = plan.target
    return initialise_command(
        flavor,
        program,
        defaults_file=target.defaults_file,
        datadir=target.datadir,
        group_suffix=target.group_suffix,
    )


def _server(plan: Plan, flavor: Flavor) -> list[str]:
    options = load_server_options(flavor, memory_bytes=plan.prepare_memory_bytes)
    return [
        plan.programs["target.server"],
        *option_words(plan.target.defaults_file, plan.target.group_suffix),
        *options,
    ]
