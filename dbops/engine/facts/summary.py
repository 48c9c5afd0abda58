"""Summarize an instance's facts in a few columns, for pages with thousands of instances."""

from dataclasses import dataclass

from dbops.engine.facts.instance import InstanceFacts, ServerFacts
from dbops.engine.phrases import phrase
from dbops.engine.states import Role

LAG_IS_HIGH_SECONDS = 300
#: Maximum length of messages from servers and hosts; the facts have the full text.
TEXT_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class Summary:
    """Summary of a probe.

    ``problem`` is why server or host did not answer, ``stopped`` why it does not replicate; both are empty if all is well.
    ``lag_seconds`` is the maximum of all channels, ``None`` if one is unknown or there is none.
    """

    problem: str
    stopped: str
    lag_seconds: float | None
    is_read_only: bool


def summarize(facts: InstanceFacts) -> Summary:
    """Return the summary of a probe."""
    server = facts.server
    if server is None:
        problem = facts.server_problem.text if facts.server_problem else "the server does not respond"
    elif facts.host is None:
        problem = facts.host_problem.text if facts.host_problem else "the host does not respond over SSH"
    else:
        problem = ""
    return Summary(
        problem=problem[:TEXT_CHARACTERS],
        stopped=_why_stopped(server)[:TEXT_CHARACTERS] if server else "",
        lag_seconds=_lag(server) if server else None,
        is_read_only=server.read_only if server else False,
    )


def _why_stopped(server: ServerFacts) -> str:
    if server.tidb is not None:
        return ""
    if not server.replication:
        return phrase("not replicating")
    for channel in server.replication:
        if not channel.is_running:
            error = channel.last_io_error or channel.last_sql_error
            return error or f"IO thread {channel.io_running}, SQL thread {channel.sql_running}"
    return ""


def _lag(server: ServerFacts) -> float | None:
    lags = [channel.lag_seconds for channel in server.replication]
    known = [lag for lag in lags if lag is not None]
    return max(known) if known and len(known) == len(lags) else None


def judge(summary: Summary | None, role: Role, *, is_fresh: bool) -> tuple[str, str]:
    """Return the word for an instance's state, and its reason. ``None``: not probed."""
    if summary is None:
        return "unknown", phrase("not probed")
    if not is_fresh:
        return "unknown", phrase("the last probe is too old")
    if summary.problem:
        return "unreachable", summary.problem
    if role is Role.PRIMARY:
        return (
            ("warning", phrase("the primary is read-only")) if summary.is_read_only else ("healthy", phrase("writable"))
        )
    if role is Role.TIDB:
        return "healthy", phrase("accepts connections")
    if summary.stopped:
        return "stopped", summary.stopped
    if summary.lag_seconds is None:
        return "warning", phrase("replicating, lag unknown")
    if summary.lag_seconds > LAG_IS_HIGH_SECONDS:
        return "lagging", phrase("lags by {seconds} s", seconds=f"{summary.lag_seconds:.0f}")
    if not summary.is_read_only:
        return "warning", phrase("replicating, but writable: read_only is off")
    return "healthy", phrase("replicating")
