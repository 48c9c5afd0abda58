"""Share one read of the source between several targets: who waits for whom, and the differences on the source.

The order protects each member from the others. A follower takes nothing over before the leader has taken over its own target. The
leader waits for its followers before it pauses the source. A later failure affects only its own rebuild. The sender is
``shared_read_sender.py``.

It sends the output of ``sent_command``, compressed or not, without looking into it: one compressor serves all, each target
expands for itself. All members get the same exit status, which is not 0 if the backup tool or the compressor failed.
"""

import posixpath
from collections.abc import Collection, Iterable

from dbops.engine.errors import RemoteFailure
from dbops.engine.flavors import flavor_for
from dbops.engine.hosts.jobs import IN_BASH
from dbops.engine.hosts.scripts import load, load_python
from dbops.engine.phrases import joined, phrase
from dbops.engine.ports import JobStatus
from dbops.engine.rebuilds.copy_check import CopyEvidence, receiver_has_failed
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.rebuilds.shared_read import BEGUN, FOLLOWERS, SharedReadMember, SharedReadPhase
from dbops.engine.rebuilds.steps.commands import sent_command
from dbops.engine.rebuilds.steps.preflight.data_location import describe_data_location
from dbops.engine.rebuilds.steps.run import Run
from dbops.engine.rebuilds.steps.source.access import keep_open
from dbops.engine.rebuilds.steps.source.release import close_source
from dbops.engine.states import Level

SEND_JOB = "shared-read"
#: How long the leader waits for a queued follower: the scheduler starts it within seconds, unless something else delays it.
QUEUED_PATIENCE_SECONDS = 30.0
#: How long the sender waits for the targets, with the source paused; each connects as soon as its driver sees that the sending begins.
#: It does not wait for a target that ended before that.
CONNECT_SECONDS = 60
ASK_SECONDS = 1.0


def is_follower(run: Run) -> bool:
    """Return whether another rebuild reads the source for this one."""
    return run.shared_read_members.leader() is not None


def is_leader(run: Run) -> bool:
    """Return whether this rebuild reads for followers: fixed before the source is paused."""
    return bool(run.checkpoint.get(FOLLOWERS))


def may_swap_datadir(run: Run) -> bool:
    """Return whether a follower may stop its target now: not before the leader has stopped its own.

    Raises:
        RemoteFailure: the leader has ended (``shared.no_read``), or has begun without this one (``shared.missed``).
    """
    leader = run.shared_read_members.leader()
    if leader is None or run.checkpoint.get("touched"):
        return True
    _must_be_read_for(run, leader)
    if "shared_read.leader_logged" not in run.checkpoint:
        run.checkpoint["shared_read.leader_logged"] = True
        run.journal.say(phrase("Leader: {leader}. Waiting until its target is ready.", leader=leader))
    return leader.phase is not SharedReadPhase.QUEUED and leader.phase is not SharedReadPhase.COMING


def settle(run: Run) -> bool:
    """Wait until every follower is ready or gone, then fix the followers. Return whether they are fixed."""
    if FOLLOWERS in run.checkpoint or is_follower(run):
        return True
    followers = run.shared_read_members.followers()
    waited = run.clock.now() - run.checkpoint.setdefault("shared_read.since", run.clock.now())
    if any(one.phase is SharedReadPhase.QUEUED for one in followers) and waited < QUEUED_PATIENCE_SECONDS:
        return False
    coming = [one for one in followers if one.phase is SharedReadPhase.COMING]
    if coming and waited < run.settings.shared_read_wait_seconds:
        run.journal.progress(note=phrase("waiting for {rebuilds}", rebuilds=", ".join(map(str, coming))))
        return False
    ready = [one for one in followers if one.phase is SharedReadPhase.READY]
    run.checkpoint[FOLLOWERS] = {
        one.uid: one.target for one in ready
    }  # also if there is none: from now on no rebuild can join
    run.journal.check()
    _log_followers(run, ready, [one for one in followers if one not in ready])
    return True


def _log_followers(run: Run, ready: list[SharedReadMember], left: list[SharedReadMember]) -> None:
    if ready:
        once = phrase(", compressed once") if run.plan.compress_threads else ""
        run.journal.say(
            phrase(
                "Shared read of {source} for this rebuild and {rebuilds}{once}.",
                source=run.source.party.name,
                rebuilds=", ".join(map(str, ready)),
                once=once,
            )
        )
    if left:
        text = phrase("Not ready in time and left out: {rebuilds}.", rebuilds=", ".join(map(str, left)))
        run.journal.say(text, level=Level.WARNING)


def may_stream(run: Run) -> bool:
    """Return whether the pull may begin. In a shared read this run's forced command has its instructions by then.

    Raises:
        RemoteFailure: the leader has ended (``shared.no_read``), or reads without this one (``shared.missed``).
        Unreachable: the source does not answer; and as ``Run.start_job``.
    """
    if run.checkpoint.get("shared_read.may_stream"):
        return True
    leader = run.shared_read_members.leader()
    if leader is None:
        if is_leader(run):
            _begin_to_send(run)
    elif not _is_read_by(run, leader):
        return False
    else:
        _take_from(run, leader.uid)
    run.checkpoint["shared_read.may_stream"] = True
    return True


def _is_read_by(run: Run, leader: SharedReadMember) -> bool:
    _must_be_read_for(run, leader)
    run.journal.progress(note=phrase("waiting for {leader} to read", leader=leader))
    return leader.phase is SharedReadPhase.READING


def _must_be_read_for(run: Run, leader: SharedReadMember) -> None:
    """Raise ``shared.missed`` if the read began without this one, whatever its result, and else ``shared.no_read``."""
    if leader.followers is not None and run.run_id not in leader.followers:
        raise _missed(run, leader)
    if leader.phase is SharedReadPhase.GONE:
        raise _no_read(run, leader)


def _begin_to_send(run: Run) -> None:
    """Start the sender, which waits for this target and its followers before it starts the backup."""
    names = [run.run_id, *run.checkpoint[FOLLOWERS]]
    _take_from(run, run.run_id)
    run.start_job(
        run.source,
        SEND_JOB,
        f"send one backup to {len(names)} targets",
        'cd -- "$DBOPS_RUN_DIR" && exec python3 shared_read.py send "$@"',
        str(round(run.settings.shared_read_stall_seconds)),
        str(CONNECT_SECONDS),
        str(run.settings.shared_read_buffer_bytes),
        *names,
        lock="shared-read",
    )
    run.checkpoint[BEGUN], run.checkpoint["shared_read.begun_at"] = True, run.clock.now()
    run.journal.check()


def _take_from(run: Run, leader: str) -> None:
    """Let this run's forced command take its bytes from the sender of another run, or of this one."""
    directory = posixpath.join(posixpath.dirname(run.source.jobs.run_directory), leader)
    run.act(
        run.source,
        "stream.take",
        f"receive the shared read of rebuild {leader}",
        load("attach_to_sender"),
        directory,
        run.run_id,
        stdin=load_python("shared_read_sender").encode(),
    )


def is_still_sent(run: Run) -> bool:
    """Return whether this run's backup is still sent to a target: until it ends, the source stays open. Raises ``Unreachable``."""
    if not run.checkpoint.get(BEGUN) or run.checkpoint.get("shared_read.over"):
        return False
    state = run.source.jobs.follow(SEND_JOB, tail_lines=200)
    _log_drops(run, state.tails.get("out", ""))
    if state.status is not JobStatus.RUNNING:
        run.journal.finished(SEND_JOB, state.exit_status, state.tails.get("out", ""))
        run.checkpoint["shared_read.over"] = True
        return False
    keep_open(run)
    return True


def give_back(run: Run) -> bool:
    """Close the source unless its backup is still sent to others. Return whether it is closed. Raises as ``close_source``."""
    if is_still_sent(run):
        followers = run.shared_read_members.followers()
        _begin_without(run, [run.run_id, *(one.uid for one in followers if one.phase is SharedReadPhase.GONE)])
        if any(one.phase is not SharedReadPhase.GONE for one in followers):
            return False
        run.source.jobs.stop(SEND_JOB)  # no target is left; the backup itself is ended below
        run.checkpoint["shared_read.over"] = True
    close_source(run)
    return True


def follow_sender(run: Run) -> None:
    """Record the sender's messages, and send it the targets that ended before they connected. Raises ``Unreachable``."""
    if is_still_sent(run) and _may_be_awaited(run):
        _begin_without(
            run, [one.uid for one in run.shared_read_members.followers() if one.phase is SharedReadPhase.GONE]
        )


def _may_be_awaited(run: Run) -> bool:
    """Return whether the sender may still wait for a target."""
    return bool(run.clock.now() < run.checkpoint.get("shared_read.begun_at", 0.0) + CONNECT_SECONDS)


def _begin_without(run: Run, uids: Iterable[str]) -> None:
    """Let the sender begin without the ended targets: the source is paused while it waits. No effect on connected targets."""
    gone = run.checkpoint.get("shared_read.gone", [])
    new = [uid for uid in uids if uid not in gone and (uid == run.run_id or uid in run.checkpoint[FOLLOWERS])]
    for uid in new if _may_be_awaited(run) else ():
        if (
            run.source.jobs.act(IN_BASH, load("drop_target"), uid).exit_status == 0
        ):  # else the next check sends it again
            gone = run.checkpoint["shared_read.gone"] = [*gone, uid]


def _log_drops(run: Run, said: str) -> None:
    lines = said.splitlines()
    targets = {run.run_id: run.plan.target.name, **run.checkpoint.get(FOLLOWERS, {})}
    for line in lines[run.checkpoint.get("shared_read.lines", 0) :]:
        uid, found, rest = line.partition(" is dropped after ")
        if found:
            text = phrase(
                "{target} is dropped after {reason}. The others continue.", target=targets.get(uid, uid), reason=rest
            )
            run.journal.say(text, level=Level.WARNING, host=run.source.party.host)
    run.checkpoint["shared_read.lines"] = len(lines)


def refuse_dropped(run: Run, evidence: CopyEvidence) -> None:
    """Raise the sender's reason for dropping this target: it is the first cause, not the missing end of the stream.

    Do nothing if the target itself reports its failure: the sender only saw its connection end.


    Raises:
        RemoteFailure: ``shared.dropped``.
    """
    said = next((line for line in evidence.transport_log.splitlines() if line.startswith("dbops: dropped ")), "")
    if said and not receiver_has_failed(evidence):
        raise RemoteFailure(
            "shared.dropped",
            phrase("Receiving the shared read of {source}", source=run.source.party.name),
            cause=phrase("this target was {reason}", reason=said.removeprefix("dbops: ")),
            state=joined((phrase("The other targets of the shared read continue."), describe_data_location(run))),
        )


def _no_read(run: Run, leader: SharedReadMember) -> RemoteFailure:
    return _left_behind(
        run, "shared.no_read", phrase("{leader} ended before it sent data to this target", leader=leader)
    )


def _missed(run: Run, leader: SharedReadMember) -> RemoteFailure:
    return _left_behind(
        run, "shared.missed", phrase("{leader} started without this target, which was not ready in time", leader=leader)
    )


def _left_behind(run: Run, code: str, found: str) -> RemoteFailure:
    return RemoteFailure(
        code,
        phrase("Sharing one read of {source}", source=run.source.party.name),
        cause=found,
        state=describe_data_location(run),
    )


def why_not_shared(plan: Plan, leader: Plan, tools: Collection[str], shareable: Collection[str]) -> str:
    """Return why one read of the source cannot serve both plans, ``""`` if it can.

    Args:
        plan: of the follower.
        leader: of the leader.
        tools: programs that the source's host has.
        shareable: methods that support a shared read.
    """
    if plan.method != leader.method or plan.method not in shareable:
        return phrase("only methods that stream from a running server can share a read")
    if plan.source.name != leader.source.name:
        return phrase("this one reads {source}, the other {other}", source=plan.source.name, other=leader.source.name)
    if not (plan.uses_gtid and leader.uses_gtid):
        return phrase("without GTID, each replica needs its own pause of the source")
    if "python3" not in tools:
        return phrase("the host of {source} has no python3, which a shared read needs", source=plan.source.name)
    if _compressed(plan) != _compressed(leader):
        return phrase(
            "the streams differ: this one is {compressed}, the other is {other}",
            compressed=_compressed(plan),
            other=_compressed(leader),
        )
    flavor = flavor_for(plan.source.version, plan.flavor)
    if sent_command(plan, flavor, "RUN") != sent_command(leader, flavor, "RUN"):
        return phrase("the two plans read the source with different options")
    return ""


def _compressed(plan: Plan) -> str:
    """Return how the stream is compressed, as text: each target of a shared read expands it as its own plan says."""
    if plan.compresses_itself:
        return phrase("compressed by the backup tool")
    return phrase("compressed by zstd in the pipe") if plan.pipe_threads else phrase("not compressed")
