"""One read of the source for several targets: who waits for whom, and what is different on the source.

The order keeps each from harm by the others. A branch takes nothing over before the one who reads has taken its own target over; that
one waits for its branches before it pauses the source; what fails afterwards fails alone. ``shared_read_sender.py`` is the sender.

What it sends is the output of ``sent_command``, compressed or not, and it looks into none of it: one compressor works for all, each target
expands for itself, and the one exit status that all are told is not 0 where the backup tool or the compressor failed.
"""

import posixpath
from collections.abc import Collection, Iterable

from dbops.engine.errors import RemoteFailure
from dbops.engine.flavors import flavor_for
from dbops.engine.hosts.jobs import IN_BASH
from dbops.engine.hosts.scripts import load, load_python
from dbops.engine.ports import JobStatus
from dbops.engine.rebuilds.copy_check import CopyEvidence, receiver_has_failed
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.rebuilds.shared_read import BEGUN, BRANCHES, SharedReadMember, SharedReadPhase
from dbops.engine.rebuilds.steps.commands import sent_command
from dbops.engine.rebuilds.steps.preflight.data_location import describe_data_location
from dbops.engine.rebuilds.steps.run import Run
from dbops.engine.rebuilds.steps.source.access import keep_open
from dbops.engine.rebuilds.steps.source.release import close_source
from dbops.engine.states import Level

SEND_JOB = "fan-out"
#: How long a queued branch is waited for: the scheduler starts it within seconds, or something else keeps it.
QUEUED_PATIENCE_SECONDS = 30.0
#: How long the sender waits for the targets, and the source stays paused for them; each connects as soon as its driver has seen that the
#: sending begins. One that has ended before that is not waited for.
CONNECT_SECONDS = 60
ASK_SECONDS = 1.0


def is_follower(run: Run) -> bool:
    """Tell whether another rebuild reads the source for this one."""
    return run.shared_read_members.reader() is not None


def is_leader(run: Run) -> bool:
    """Tell whether this rebuild reads for branches: settled before the source is paused."""
    return bool(run.checkpoint.get(BRANCHES))


def may_swap_datadir(run: Run) -> bool:
    """Tell whether a branch may stop its target now: not before the one who reads has stopped its own.

    Raises:
        RemoteFailure: that one has ended (``shared.no_read``), or has begun without this one (``shared.missed``).
    """
    reader = run.shared_read_members.reader()
    if reader is None or run.checkpoint.get("touched"):
        return True
    _must_be_read_for(run, reader)
    if "fan_out.told" not in run.checkpoint:
        run.checkpoint["fan_out.told"] = True
        run.journal.say(f"The source is read by {reader} for both: waiting until its target is taken over.")
    return reader.phase is not SharedReadPhase.QUEUED and reader.phase is not SharedReadPhase.COMING


def settle(run: Run) -> bool:
    """Wait until every branch is ready or gone, then settle for whom is read. Return whether that is settled."""
    if BRANCHES in run.checkpoint or is_follower(run):
        return True
    followers = run.shared_read_members.followers()
    waited = run.clock.now() - run.checkpoint.setdefault("fan_out.since", run.clock.now())
    if any(one.phase is SharedReadPhase.QUEUED for one in followers) and waited < QUEUED_PATIENCE_SECONDS:
        return False
    coming = [one for one in followers if one.phase is SharedReadPhase.COMING]
    if coming and waited < run.settings.fan_out_wait_seconds:
        run.journal.progress(note=f"waiting until {', '.join(map(str, coming))} can receive")
        return False
    ready = [one for one in followers if one.phase is SharedReadPhase.READY]
    run.checkpoint[BRANCHES] = {
        one.uid: one.target for one in ready
    }  # also where there is none: from here on nobody joins
    run.journal.check()
    _tell(run, ready, [one for one in followers if one not in ready])
    return True


def _tell(run: Run, ready: list[SharedReadMember], left: list[SharedReadMember]) -> None:
    if ready:
        once = ", compressed once for all" if run.plan.compress_threads else ""
        run.journal.say(f"One read of {run.source.party.name} for this and {', '.join(map(str, ready))}{once}.")
    if left:
        text = f"Not waited for any longer: {', '.join(map(str, left))}."
        run.journal.say(text, level=Level.WARNING)


def may_stream(run: Run) -> bool:
    """Tell whether the pull may begin. Where a read is shared the forced command of this run has been told so when it may.

    Raises:
        RemoteFailure: the one who reads has ended (``shared.no_read``), or reads without this one (``shared.missed``).
        Unreachable: the source does not answer; and as ``Run.start_job``.
    """
    if run.checkpoint.get("fan_out.may_stream"):
        return True
    reader = run.shared_read_members.reader()
    if reader is None:
        if is_leader(run):
            _begin_to_send(run)
    elif not _is_read_by(run, reader):
        return False
    else:
        _take_from(run, reader.uid)
    run.checkpoint["fan_out.may_stream"] = True
    return True


def _is_read_by(run: Run, reader: SharedReadMember) -> bool:
    _must_be_read_for(run, reader)
    run.journal.progress(note=f"waiting until {reader} reads")
    return reader.phase is SharedReadPhase.READING


def _must_be_read_for(run: Run, reader: SharedReadMember) -> None:
    """Raise ``shared.missed`` where it was settled without this one, however that read has ended since, and ``shared.no_read``."""
    if reader.followers is not None and run.run_id not in reader.followers:
        raise _missed(run, reader)
    if reader.phase is SharedReadPhase.GONE:
        raise _no_read(run, reader)


def _begin_to_send(run: Run) -> None:
    """Start the sender, which waits for this target and its branches before it starts the backup."""
    names = [run.run_id, *run.checkpoint[BRANCHES]]
    _take_from(run, run.run_id)
    run.start_job(
        run.source,
        SEND_JOB,
        f"send one backup to {len(names)} targets",
        'cd -- "$DBOPS_RUN_DIR" && exec python3 fan_out.py send "$@"',
        str(round(run.settings.fan_out_stall_seconds)),
        str(CONNECT_SECONDS),
        str(run.settings.fan_out_buffer_bytes),
        *names,
        lock="fan-out",
    )
    run.checkpoint[BEGUN], run.checkpoint["fan_out.begun_at"] = True, run.clock.now()
    run.journal.check()


def _take_from(run: Run, reader: str) -> None:
    """Let the forced command of this run take its bytes from the sender of another one, or of this one itself."""
    directory = posixpath.join(posixpath.dirname(run.source.jobs.run_directory), reader)
    run.act(
        run.source,
        "stream.take",
        f"take from the one read of rebuild {reader}",
        load("attach_to_sender"),
        directory,
        run.run_id,
        stdin=load_python("shared_read_sender").encode(),
    )


def is_still_sent(run: Run) -> bool:
    """Tell whether the backup of this run is still sent to somebody: until then the source is not given back. Raises ``Unreachable``."""
    if not run.checkpoint.get(BEGUN) or run.checkpoint.get("fan_out.over"):
        return False
    state = run.source.jobs.follow(SEND_JOB, tail_lines=200)
    _tell_of_sender(run, state.tails.get("out", ""))
    if state.status is not JobStatus.RUNNING:
        run.journal.finished(SEND_JOB, state.exit_status, state.tails.get("out", ""))
        run.checkpoint["fan_out.over"] = True
        return False
    keep_open(run)
    return True


def give_back(run: Run) -> bool:
    """Close the source, but not while its backup is still sent to others. Return whether it is closed. Raises as ``close_source``."""
    if is_still_sent(run):
        followers = run.shared_read_members.followers()
        _begin_without(run, [run.run_id, *(one.uid for one in followers if one.phase is SharedReadPhase.GONE)])
        if any(one.phase is not SharedReadPhase.GONE for one in followers):
            return False
        run.source.jobs.stop(SEND_JOB)  # nobody is left who could take anything; the backup itself is ended below
        run.checkpoint["fan_out.over"] = True
    close_source(run)
    return True


def follow_sender(run: Run) -> None:
    """Bring what the sender says into the history, and tell it who has ended before it came. Raises ``Unreachable``."""
    if is_still_sent(run) and _may_be_awaited(run):
        _begin_without(
            run, [one.uid for one in run.shared_read_members.followers() if one.phase is SharedReadPhase.GONE]
        )


def _may_be_awaited(run: Run) -> bool:
    """Tell whether the sender may still wait for somebody."""
    return bool(run.clock.now() < run.checkpoint.get("fan_out.begun_at", 0.0) + CONNECT_SECONDS)


def _begin_without(run: Run, uids: Iterable[str]) -> None:
    """Let the sender begin without those who have ended: the source is paused while it waits. Of one that came before it means nothing."""
    told = run.checkpoint.get("fan_out.gone", [])
    new = [uid for uid in uids if uid not in told and (uid == run.run_id or uid in run.checkpoint[BRANCHES])]
    for uid in new if _may_be_awaited(run) else ():
        if (
            run.source.jobs.act(IN_BASH, load("drop_target"), uid).exit_status == 0
        ):  # else it is said again with the next look
            told = run.checkpoint["fan_out.gone"] = [*told, uid]


def _tell_of_sender(run: Run, said: str) -> None:
    lines = said.splitlines()
    targets = {run.run_id: run.plan.target.name, **run.checkpoint.get(BRANCHES, {})}
    for line in lines[run.checkpoint.get("fan_out.lines", 0) :]:
        uid, found, rest = line.partition(" is dropped after ")
        if found:
            text = f"{targets.get(uid, uid)}{found}{rest}. The others go on."
            run.journal.say(text, level=Level.WARNING, host=run.source.party.host)
    run.checkpoint["fan_out.lines"] = len(lines)


def refuse_dropped(run: Run, evidence: CopyEvidence) -> None:
    """Raise what the sender said when it dropped this target: that is the first cause, not the stream's missing end.

    Not where the target itself says why it took no more: the sender only saw its connection end.

    Raises:
        RemoteFailure: ``shared.dropped``.
    """
    said = next((line for line in evidence.transport_log.splitlines() if line.startswith("dbops: dropped ")), "")
    if said and not receiver_has_failed(evidence):
        raise RemoteFailure(
            "shared.dropped",
            f"Receiving the shared read of {run.source.party.name}",
            cause=f"this target was {said.removeprefix('dbops: ')}",
            state="The other targets of the shared read continue. " + describe_data_location(run),
        )


def _no_read(run: Run, reader: SharedReadMember) -> RemoteFailure:
    return _left_behind(run, "shared.no_read", f"{reader} ended before it sent data to this target")


def _missed(run: Run, reader: SharedReadMember) -> RemoteFailure:
    return _left_behind(run, "shared.missed", f"{reader} started without this target, which was not ready in time")


def _left_behind(run: Run, code: str, found: str) -> RemoteFailure:
    return RemoteFailure(
        code,
        f"Sharing one read of {run.source.party.name}",
        cause=found,
        state=describe_data_location(run),
    )


def why_not_shared(plan: Plan, reader: Plan, tools: Collection[str], shareable: Collection[str]) -> str:
    """Return in words why one read of the source cannot serve both plans, ``""`` where it can.

    Args:
        plan: of the rebuild that would get its copy from the other's read.
        reader: of the rebuild that would read.
        tools: programs that the source's host has.
        shareable: methods of which one read of the source can serve several rebuilds.
    """
    if plan.method != reader.method or plan.method not in shareable:
        return "only streams from a running server are read once for several"
    if plan.source.name != reader.source.name:
        return f"this one reads {plan.source.name}, the other {reader.source.name}"
    if not (plan.uses_gtid and reader.uses_gtid):
        return "without GTID each replica is repointed while the source is paused for it alone"
    if "python3" not in tools:
        return f"the host of {plan.source.name} has no python3, which sends one backup to several targets"
    if _compressed(plan) != _compressed(reader):
        return f"all of one read get the same bytes, and this one's stream is {_compressed(plan)}, the other's is {_compressed(reader)}"
    flavor = flavor_for(plan.source.version, plan.flavor)
    if sent_command(plan, flavor, "RUN") != sent_command(reader, flavor, "RUN"):
        return "the two plans read the source with different options"
    return ""


def _compressed(plan: Plan) -> str:
    """Return in words by whom what is read is compressed: each target of one read expands it in its own plan's way."""
    if plan.compresses_itself:
        return "compressed by the backup tool"
    return "compressed by zstd in the pipe" if plan.pipe_threads else "not compressed"
