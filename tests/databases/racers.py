"""Several processes of the dashboard that do things at the same moment."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
#: All orders are read and every process is awake by then.
LEAD_SECONDS = 0.02


class Racer:
    """A process that has the product's code, and connections of its own to the database."""

    def __init__(self, url: str, folder: Path, **environment: str) -> None:
        with (folder / "racers.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.databases.racer"],
                cwd=ROOT,
                env={**os.environ, "DBOPS_DATABASE_URL": url, "DBOPS_STATE_DIR": str(folder), **environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def order(self, deed: str, *arguments: Any, at: float = 0.0) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"deed": deed, "arguments": arguments, "at": at}) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        return checked([self._read()])[0]

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
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
        self.process.wait(10)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


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
