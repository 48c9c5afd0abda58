"""Read what ``run_round`` wrote about one round (``hosts/scripts/load_tests/measure.sh`` and ``load.lua``)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from dbops.engine.errors import RemoteFailure
from dbops.engine.load_tests.round_result import RoundResult, Second, WaitShare
from dbops.engine.load_tests.rounds import Round
from dbops.engine.phrases import phrase

#: Statuses of ``run_round``.
TOO_LATE, SERVER_ENDED = 124, 125
#: Errors of a server, and of its operating system, without space or memory.
NO_SPACE = frozenset({3, 28, 1021, 1026, 1037, 1038, 1041, 1114})
TOO_MANY_CONNECTIONS = 1040
#: ``performance_schema`` counts in picoseconds.
PICOSECONDS = 1e12
MOST_WAITS = 100
#: A process in the lines of ``load_relay.py``: it runs beside the generator.
RELAY_OF_GENERATOR = "relay-of-generator"

Fields = Sequence[str]


@dataclass(slots=True)
class _Lines:
    """The lines by their first word; those of the generator without ``dbops``."""

    of: dict[str, list[list[str]]] = field(default_factory=dict)
    words: str = ""
    ended: str = ""
    message: str = ""

    def last(self, key: str) -> list[str]:
        return self.of.get(key, [[]])[-1]


def parse_round(text: str, one: Round) -> RoundResult:
    """Return the result of a finished round.

    Raises:
        RemoteFailure: the generator failed, was killed or did not end (``load_test.generator``); the server refused connections
            (``load_test.connections``), ended (``load_test.server_ended``), was full (``load_test.full``) or ended the load with an error
            (``load_test.statements_fail``); the text is incomplete (``load_test.unreadable``).
    """
    lines = _read(text)
    _must_have_ended_well(lines, one)
    try:
        result = _result(lines, one)
    except (ValueError, IndexError, OverflowError) as error:
        raise _failure("load_test.unreadable", one, phrase("its lines are not those of a round")) from error
    if result.queries == 0 and result.errors > 0:
        raise _failure(
            "load_test.statements_fail",
            one,
            phrase("all {errors} statements failed: {last_error}", errors=result.errors, last_error=result.last_error),
        )
    return result


def _read(text: str) -> _Lines:
    lines = _Lines()
    for line in text.splitlines():
        key, _, rest = line.removeprefix("dbops ").partition(" ")
        match key:
            case "words":
                lines.words = rest
            case "ended":
                lines.ended = rest
            case "message":
                lines.message = rest
            case _:
                lines.of.setdefault(key, []).append(rest.split(" "))
    return lines


def _must_have_ended_well(lines: _Lines, one: Round) -> None:
    status = lines.last("status")
    if not status:
        raise _failure("load_test.unreadable", one, phrase("it has no end"))
    if status[0] == "0" and lines.last("total"):
        return
    number, _, message = lines.ended.partition(" ")
    error = int(number) if number.isdecimal() else 0
    words = (
        phrase("error {error}: {message}", error=error, message=message)
        if lines.ended
        else lines.words or phrase("status {status}, without a word", status=status[0])
    )
    if status[0] == str(SERVER_ENDED):
        raise _failure("load_test.server_ended", one, words)
    if error == TOO_MANY_CONNECTIONS or f"error {TOO_MANY_CONNECTIONS}:" in words:
        raise _failure("load_test.connections", one, words)
    if error in NO_SPACE or "no space left" in words.lower():
        raise _failure("load_test.full", one, words)
    if lines.ended:
        raise _failure("load_test.statements_fail", one, words)
    if status[0] == "0":
        raise _failure("load_test.unreadable", one, phrase("the generator wrote no result"))
    cause = (
        phrase("did not end in time")
        if status[0] == str(TOO_LATE)
        else phrase("ended with status {status}", status=status[0])
    )
    raise _failure(
        "load_test.generator",
        one,
        phrase(
            "the load generator {cause}. Its last lines: {output}", cause=cause, output=lines.words or phrase("none")
        ),
    )


def _result(lines: _Lines, one: Round) -> RoundResult:
    begun, ended = _floats(lines.last("measuring")), _floats(lines.last("end"))
    elapsed = ended[0] - begun[0]
    if elapsed <= 0:
        raise ValueError("no time has passed")
    queries, errors, unserved, visited, events = (int(value) for value in lines.last("total"))
    latency = _floats(lines.last("latency"))
    tunnel = {name: float(cores) for name, cores in lines.of.get("tunnel", [])}
    return RoundResult(
        number=one.number,
        started_at=datetime.fromtimestamp(begun[0], UTC),
        finished_at=datetime.fromtimestamp(ended[0], UTC),
        queries=queries,
        errors=errors,
        buckets=tuple(sorted((float(upper), int(count)) for upper, count in lines.of.get("bucket", []))),
        seconds=tuple(_seconds(lines.of.get("second", []))),
        min_ms=latency[0] if latency else None,
        max_ms=latency[1] if latency else None,
        average_ms=latency[2] / queries if latency and queries else None,
        # its relay takes part of the cores that it may use
        generator_cores=(ended[1] - begun[1]) / elapsed + tunnel.get(RELAY_OF_GENERATOR, 0.0),
        server_cores=_server_cores(lines),
        waits=_waits(lines, one.threads * (_sampled_seconds(lines) or elapsed)),
        counters=_counters(lines),
        events=events,
        unserved=unserved,
        schemas_visited=visited,
        errors_by_number={int(number): int(count) for number, count in lines.of.get("error", [])},
        last_error=lines.message,
        tunnel_cores=max(tunnel.values(), default=None),
    )


def _floats(values: Iterable[str]) -> list[float]:
    return [float(value) for value in values]


def _seconds(rows: Iterable[Fields]) -> Iterable[Second]:
    for number, queries, errors, p95 in rows:
        yield Second(int(number), float(queries), float(errors), None if p95 == "-" else float(p95))


def _samples(lines: _Lines) -> dict[str, list[float]]:
    """Return the server's ticks and the times at which it was looked at: a moment after the generator began and ended to measure."""
    samples = {row[0]: _floats(row[1:]) for row in lines.of.get("server", []) if len(row) == 3 and row[1]}
    return samples if len(samples) == 2 else {}


def _sampled_seconds(lines: _Lines) -> float:
    samples = _samples(lines)
    return samples["after"][1] - samples["before"][1] if samples else 0.0


def _server_cores(lines: _Lines) -> float | None:
    samples, seconds = _samples(lines), _sampled_seconds(lines)
    return (
        (samples["after"][0] - samples["before"][0]) / float(lines.last("ticks")[0]) / seconds if seconds > 0 else None
    )


def _pairs(rows: Iterable[Fields]) -> Mapping[str, tuple[Fields, Fields]]:
    """Return what was read before and after, by name. A name that is new since then begins with nothing."""
    before: dict[str, Fields] = {}
    after: dict[str, Fields] = {}
    for at, name, *values in rows:
        (before if at == "before" else after)[name] = values
    return {name: (before.get(name, ["0"] * len(values)), values) for name, values in after.items()}


def _counters(lines: _Lines) -> dict[str, int]:
    found = _pairs(lines.of.get("counter", []))
    return {
        name: int(after[0]) - int(before[0])
        for name, (before, after) in sorted(found.items())
        if before and after and before[0].isdecimal() and after[0].isdecimal()
    }


def _waits(lines: _Lines, thread_seconds: float) -> tuple[WaitShare, ...]:
    waits = []
    for event, (before, after) in _pairs(lines.of.get("wait", [])).items():
        count, seconds = int(after[0]) - int(before[0]), (int(after[1]) - int(before[1])) / PICOSECONDS
        if count > 0:
            waits.append(WaitShare(event, count, seconds, seconds / thread_seconds))
    return tuple(sorted(waits, key=lambda wait: (-wait.seconds, wait.event))[:MOST_WAITS])


def _failure(code: str, one: Round, cause: str) -> RemoteFailure:
    return RemoteFailure(code, phrase("Running round {number} of the load test", number=one.number), cause=cause)
