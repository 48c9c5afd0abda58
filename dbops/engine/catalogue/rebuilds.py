"""Errors of planning, requesting, queueing and controlling a rebuild, and of shared reads."""

from dbops.engine.catalogue.entries import REPORT, UNCHANGED, CatalogueSection, cancelled, host, operator, ours

_PLAN = (
    operator(
        "plan.no_source",
        "The cluster has no instance to copy from except the primary and the target.",
        UNCHANGED,
        "Add a backup instance or another replica to the inventory.",
    ),
    operator(
        "plan.no_facts",
        "dbops has too little data to plan: an instance was not probed or doesn't answer, or there is no primary.",
        UNCHANGED,
        "Fix the problem and wait for a successful probe. Then plan again, or choose another source. "
        "A code in brackets has its own entry.",
    ),
    operator(
        "plan.refused",
        "A pre-flight check failed. The message lists each failed check.",
        UNCHANGED,
        "Fix these problems and plan again. Failed checks can't be overridden. See checks.md.",
    ),
    operator(
        "plan.stale",
        "The plan has changed since you opened the page.",
        UNCHANGED,
        "Review the new plan and confirm it.",
    ),
    operator(
        "plan.blocked",
        "The rebuild can't start, and the blocker has no automatic end.",
        UNCHANGED,
        "Remove the blocker or choose another source. See blockers.md.",
    ),
    operator(
        "plan.start_stale",
        "The selected start option is no longer available.",
        UNCHANGED,
        "Review the current start options and choose again.",
    ),
    operator("plan.expiry", "The expiry of a queued rebuild is out of range.", UNCHANGED, "Enter 1 to 168 hours."),
    operator(
        "plan.incomplete",
        "The form lacks its source, fingerprint or request key. The page was probably out of date.",
        UNCHANGED,
        "Reload the page, review the plan and confirm again.",
    ),
    operator(
        "plan.changed",
        "The instances have changed since the plan was made. The message lists each difference.",
        "Nothing was changed on any host. The rebuild has ended.",
        "Open the plan again and review the differences. A target that accepts writes may be the new primary.",
    ),
    host(
        "probe.incomplete",
        "An instance could not be read in time, just before the rebuild began.",
        UNCHANGED,
        "Check the pages of the instances to see which one doesn't answer. Then plan again.",
    ),
)

_CONTROL = (
    operator(
        "rebuild.name",
        "The name that you typed is not the target's name.",
        UNCHANGED,
        "Check that this is the right instance, then type its name.",
    ),
    operator(
        "rebuild.busy",
        "This instance already has a queued, running or lost rebuild.",
        "That rebuild was not changed.",
        "Watch that rebuild, or cancel it first.",
    ),
    operator(
        "rebuild.ended", "The rebuild has already ended, so it can't be cancelled.", UNCHANGED, "Check its outcome."
    ),
    operator(
        "rebuild.priority",
        "The priority is out of range.",
        "The queue position was not changed.",
        "Enter -9 to 9, or move the rebuild to the front.",
    ),
    operator(
        "rebuild.no_stream",
        "The rate can't be set: the stream has ended, or this method has no stream.",
        "The rate limit was not changed.",
        "Check the rebuild's page. No action is needed.",
    ),
    operator(
        "rebuild.rate",
        "The rate limit is invalid, or so low that the source would overwrite its redo log.",
        "The rate limit was not changed.",
        "Enter a rate in MiB/s, or remove the limit and rebuild at a time with fewer writes.",
    ),
    operator(
        "rebuild.not_queued",
        "The rebuild has started or ended, so it has no queue position.",
        UNCHANGED,
        "No action is needed. To stop a running rebuild, cancel it.",
    ),
    operator(
        "rebuild.no_follow_up",
        "Rolling back, resuming or rebuilding again is not possible. The message gives the reason.",
        "Nothing was changed on any host.",
        "Check the instance, and plan a new rebuild.",
    ),
    operator(
        "rebuild.not_lost",
        "Only a lost rebuild can be force-failed.",
        UNCHANGED,
        "If the rebuild is still running, cancel it.",
    ),
    cancelled(
        "rebuild.cancelled",
        "A user cancelled the rebuild.",
        'The outcome says where the old data is. Before step "Stop the target", nothing was changed.',
        "Rebuild again, or roll back to the old data.",
    ),
    ours(
        "rebuild.transition",
        "dbops tried an impossible state change.",
        "The rebuild keeps its state and its locks.",
        REPORT + " Check that the source is replicating.",
    ),
    ours(
        "bug",
        "An unexpected error occurred. The worker's log has the traceback.",
        "The clean-up has run. The outcome shows the current state.",
        "Please report this error with its traceback. It is safe to try again.",
    ),
)

_SHARED = (
    host(
        "shared.dropped",
        "The source stopped sending to this target: the connection failed or no data moved for "
        "`DBOPS_SHARED_READ_STALL_SECONDS`.",
        "The other targets continue. This copy is unusable; the outcome says where the old data is.",
        "Check the target's host and its network. Then rebuild again.",
    ),
    host(
        "shared.missed",
        "The shared copy started before this target was ready: its server took too long to stop, or the rebuild started "
        "too late.",
        "No data was copied. The outcome says where the old data is.",
        "Rebuild this target again, on its own. `DBOPS_SHARED_READ_WAIT_SECONDS` sets how long the leader waits.",
    ),
    host(
        "shared.no_read",
        "The leader of the shared read ended before it sent data.",
        "No data was copied. The outcome says where the old data is.",
        "Check the leader's page for the cause. Then rebuild this target again, on its own.",
    ),
    operator(
        "join.not_joined",
        "The rebuild is not part of a shared read, or no longer waits.",
        UNCHANGED,
        "Check the rebuild's page.",
    ),
    operator(
        "join.not_possible",
        "These rebuilds can't share one read of the source. The message gives the reason.",
        "Nothing was changed. Each rebuild reads the source on its own.",
        "Run the rebuilds one after the other, or join another one.",
    ),
)

SECTIONS = (
    CatalogueSection("Plan and request", _PLAN),
    CatalogueSection("Rebuilds", _CONTROL),
    CatalogueSection("Shared reads", _SHARED),
)
