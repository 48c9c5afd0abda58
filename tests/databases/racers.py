"""Several processes of the dashboard that do things at the same moment."""

import json
import os
import signal
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.loaded import Loaded

ROOT = Path(__file__).parents[2]
#: All orders are read and every process is awake by then.
LEAD_SECONDS = 0.02


def loaded(url: str, folder: Path, **environment: str) -> "closing[Loaded]":
    """Return what racers on this database are forked from."""
    variables = {**os.environ, "DBOPS_DATABASE_URL": url, "DBOPS_STATE_DIR": str(folder), **environment}
    return closing(Loaded(variables, folder / "racers.log"))


class Racer:
    """A process that has the product's code, and connections of its own to the database."""

    def __init__(self, code: Loaded) -> None:
        given, orders = os.pipe()
        answers, found = os.pipe()
        self._orders, self._answers = os.fdopen(orders, "w"), os.fdopen(answers)
        try:
            self.process = code.start(("tests.databases.racer",), (given, found, code.log.fileno()))
        finally:
            os.close(given)
            os.close(found)

    def order(self, deed: str, *arguments: Any, at: float = 0.0) -> None:
        self._orders.write(json.dumps({"deed": deed, "arguments": arguments, "at": at}) + "\n")
        self._orders.flush()

    def answer(self) -> Any:
        return checked([self._read()])[0]

    def _read(self) -> dict[str, Any]:
        line = self._answers.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": "the process has died"}
        return answer

    def do(self, deed: str, *arguments: Any) -> Any:
        self.order(deed, *arguments)
        return self.answer()

    def kill(self, number: int = signal.SIGKILL) -> None:
        self.process.send_signal(number)
        if number == signal.SIGKILL:
            self.close()

    def close(self) -> None:
        self.process.kill()
        self.process.wait(60)
        self._answers.close()
        try:
            self._orders.close()
        except BrokenPipeError:
            pass  # the reader has gone


def race(racers: list[Racer], deed: str, *arguments: Any, each: list[tuple[Any, ...]] | None = None) -> list[Any]:
    """Let every racer do it at one moment, with the same arguments or ``each`` with its own. Return all answers."""
    at = time.time() + LEAD_SECONDS
    for number, racer in enumerate(racers):
        racer.order(deed, *(each[number] if each else arguments), at=at)
    return checked([racer._read() for racer in racers])


def checked(answers: list[dict[str, Any]]) -> list[Any]:
    errors = [answer["error"] for answer in answers if "error" in answer]
    assert not errors, "\n".join(errors)
    return [answer["answer"] for answer in answers]
