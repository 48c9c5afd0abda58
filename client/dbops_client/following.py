"""Follow a rebuild: each line of its log once, also across cut connections, and a progress bar."""

import http.client
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from dbops_client.connection import Dbops, NoAnswer

#: dbops sends a sign of life every four seconds.
SILENCE_SECONDS = 20.0
PAUSE_SECONDS = 1.0
#: How long dbops may be away before the client gives up. The rebuild continues in any case.
PATIENCE_SECONDS = 600.0
MIB = 1024 * 1024


def plain(text: str) -> str:
    """Return a text without control characters, which could change what a terminal shows."""
    return "".join(char if char.isprintable() else " " for char in text)


def events(answer: http.client.HTTPResponse) -> Iterator[tuple[str, str, str]]:
    """Yield name, id and data of each event of a stream. One event is one block of lines."""
    fields: dict[str, str] = {}
    for raw in answer:
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        if line:
            name, _, value = line.partition(":")
            fields[name] = value[1:] if value.startswith(" ") else value
        else:
            if "event" in fields:
                yield fields["event"], fields.get("id", ""), fields.get("data", "")
            fields = {}


def follow(
    dbops: Dbops, number: int, *, line: Callable[[dict[str, Any]], None], state: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Call ``line`` for each line of the log and ``state`` for each state. Return the last state.

    Raises:
        NoAnswer: dbops was away for too long.
        Refused: the token does not open the rebuild (any more).
    """
    last, newest, heard = 0, {}, time.monotonic()
    while True:
        try:
            answer = dbops.open(f"/rebuilds/{number}/events", {"Last-Event-ID": str(last)}, SILENCE_SECONDS)
            try:
                for name, identity, data in events(answer):
                    heard = time.monotonic()
                    if name == "log" and int(identity) > last:
                        last = int(identity)
                        line(json.loads(data))
                    elif name == "rebuild":
                        newest = json.loads(data)
                        state(newest)
                    elif name == "end":
                        return newest
            finally:
                answer.close()
        except (NoAnswer, OSError, http.client.HTTPException, ValueError) as error:
            if time.monotonic() - heard > PATIENCE_SECONDS:
                raise NoAnswer(f"dbops is away for {PATIENCE_SECONDS:.0f} s: {error}") from None
        time.sleep(PAUSE_SECONDS)


class Bar:
    """The progress of the step that runs, in the last line of a terminal; nothing elsewhere."""

    def __init__(self) -> None:
        self.is_shown, self.text = sys.stderr.isatty(), ""

    def hide(self) -> None:
        if self.is_shown and self.text:
            sys.stderr.write("\r\033[K")

    def show(self) -> None:
        if self.is_shown:
            sys.stderr.write(f"\r\033[K{self.text}")
            sys.stderr.flush()

    def update(self, rebuild: dict[str, Any]) -> None:
        """Show a state of the rebuild."""
        self.text = bar_of(rebuild, shutil.get_terminal_size().columns - 1)
        self.show()


def bar_of(rebuild: dict[str, Any], width: int) -> str:
    """Return the progress of a rebuild as one line."""
    step = next((one for one in rebuild["steps"] if one["state"] == "running"), None)
    if step is None:
        return plain(f"{rebuild['status']} {rebuild['waiting_for']}".strip())[:width]
    done = sum(one["state"] == "done" for one in rebuild["steps"])
    text = f"{done + 1}/{len(rebuild['steps'])} {plain(step['title'])}"
    if step["percent"] is not None:
        full = max(0, min(20, round(step["percent"] / 5)))
        text += f" [{'#' * full}{'.' * (20 - full)}] {step['percent']:.1f} %"
    if step["bytes_per_second"]:
        text += f" {step['bytes_per_second'] / MIB:.0f} MiB/s"
    if step["eta_seconds"] is not None:
        minutes, seconds = divmod(int(step["eta_seconds"]), 60)
        text += f" {minutes // 60}:{minutes % 60:02}:{seconds:02} left"
    return text[:width]
