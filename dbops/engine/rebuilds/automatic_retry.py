"""A branch that a shared read went on without: when it is rebuilt once more by itself, alone, and when a person has to look first. Pure.

It has no copy to go on with (half a stream cannot be continued), so it is planned anew. Nobody reads that plan before it is carried out: it
must be the one that a person has confirmed, but for what the failed rebuild itself did to the target.
"""

from collections.abc import Mapping
from typing import Any

from dbops.engine.rebuilds.plan import Plan
from dbops.engine.rebuilds.steps.preflight.resume_check import differences_for_retry

#: Ends that come of the way from the source to the target, or of the moment. What says something of the target's own disk, memory or
#: programs, of the source or of the wrong machine is not here, nor what has no known cause: it would end so again, or needs a person.
OF_THE_WAY = frozenset(
    {
        *("shared.dropped", "shared.missed"),
        *("transport.connect", "transport.lost", "stream.broken_pipe", "stream.truncated"),
    }
)
#: Warnings that come of what the failed rebuild did: it stopped the server, and its half copy takes room and is removed first.
OF_A_TOUCHED_TARGET = frozenset({"target.read_only", "target.errant", "target.space"})


def ended_on_the_way(error: Mapping[str, Any]) -> bool:
    """Tell whether a rebuild's error (``DbopsError.as_record``) is one after which the same rebuild, alone, may well succeed."""
    return error.get("code") in OF_THE_WAY


def unlike_confirmed(before: Plan, now: Plan, memory: Mapping[str, Any]) -> list[str]:
    """Return how a new plan differs from the confirmed one of the rebuild that failed, as sentences; none where it may be carried out.

    Args:
        before: the plan that a person confirmed.
        now: the plan of today, of the same target, source and method.
        memory: of the rebuild that failed: whether it has touched its target, which directory it made there, and what it left in it.
    """
    was_touched = bool(memory.get("touched"))
    changes = differences_for_retry(before, now, was_touched=was_touched)
    if was_touched:
        changes += _unlike_left(now, memory)
    elif before.target.datadir_identity and not before.target.is_answering:
        # nothing was looked at in there before: somebody may be restoring into it by now
        changes.append(
            f"the server of {now.target.name} was down from the start, and nobody knows what lies in its data directory now"
        )
    if now.pause_source and not before.pause_source:
        changes.append(f"replication of {now.source.name} would be paused")
    accepted = {finding.accepted_as for finding in before.warnings}
    excused = OF_A_TOUCHED_TARGET if was_touched else frozenset[str]()
    return changes + [
        f"{finding.title}: {finding.seen}"
        for finding in now.warnings
        if finding.accepted_as not in accepted and finding.code not in excused
    ]


def _unlike_left(now: Plan, memory: Mapping[str, Any]) -> list[str]:
    """Return how a target is not as the failed rebuild left it. What lies in its data directory is compared on the host, by the move."""
    changes, target = [], now.target
    if target.datadir_identity != memory.get("new_identity", ""):
        changes.append(f"{target.datadir} is not the directory that the failed rebuild left")
    elif not memory.get("left_tree"):
        changes.append(f"the host did not say what the failed rebuild left in {target.datadir}")
    if target.is_answering:
        changes.append(f"the server of {target.name} runs, which the failed rebuild left stopped")
    return changes
