"""Run the commands that a lesson of docs/tutorial shows, in its order, and do what it asks the reader to do by clicking.

In a lesson, each ``sh`` block is run, and each ``text`` block is what the commands before it print: its lines appear in this
order, and ``…`` is any text. Comments, which no reader sees, say the rest:

``<!-- do: name -->``                 the test does this by its method of that name
``<!-- given: name -->``              what the reader types while the next commands run: the test's ``typed`` of that name
``<!-- repeat -->``                   the reader repeats the next commands until they print what is shown
``<!-- terminal: name until: text -->``   the next commands run in a terminal of their own; the reader waits for the text
"""

import hashlib
import os
import re
import shutil
import signal
import subprocess
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.stack import ROOT, wait_for

LEFT_OUT = (
    ".git",
    ".venv",
    "var",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
    ".hypothesis",
    ".import_linter_cache",
)
PART = re.compile(
    r"^[ ]*<!-- (?P<word>do|given|terminal|repeat)(?:: (?P<name>\w+))?(?: until: (?P<until>.*?))? -->$"
    r"|^(?P<indent>[ ]*)```(?P<kind>\S*)\n(?P<text>.*?)^[ ]*```$",
    re.MULTILINE | re.DOTALL,
)
#: Runs each file of commands in one shell, as a terminal does. Its input and output are files.
SHELL = """
trap 'failed=yes' ERR
while IFS= read -r -u 9 step; do
    failed=no
    source "$step" <"$step.given" >"$step.printed" 2>&1
    echo "$failed" >"$step.new" && mv "$step.new" "$step.failed"
done
"""
COMMAND_SECONDS = 120


@dataclass
class Step:
    """Commands with what they print, or something to do."""

    commands: str = ""
    printed: list[str] = field(default_factory=list)
    do: str = ""
    given: str = ""
    terminal: str = ""
    until: str = ""
    is_repeated: bool = False


def steps_of(page: Path) -> list[Step]:
    """Return the steps of a lesson in the order of its text."""
    found, coming = list[Step](), Step()
    for part in PART.finditer(page.read_text()):
        word, name, text = part["word"], part["name"], textwrap.dedent(part["text"] or "")
        if word == "do":
            found.append(Step(do=name))
        elif word == "given":
            coming.given = name
        elif word == "repeat":
            coming.is_repeated = True
        elif word == "terminal":
            coming.terminal, coming.until = name, part["until"]
        elif part["kind"] == "sh":
            coming.commands = text
            found.append(coming)
            coming = Step()
        elif part["kind"] == "text":
            assert found[-1].commands, f"{page.name} shows output without commands before it: {text}"
            found[-1].printed = text.splitlines()
        else:
            raise AssertionError(f"{page.name} has a block of another kind, which is not tested: {part['kind']}")
    return found


def missing(shown: list[str], printed: str) -> list[str]:
    """Return the lines of a lesson's output from the first one on that was not printed in this order."""
    rest = iter(printed.splitlines())
    for place, line in enumerate(shown):
        wanted = re.compile(r"\s+".join(".*".join(map(re.escape, word.split("…"))) for word in line.split()))
        if not any(wanted.search(found) for found in rest):
            return shown[place:]
    return []


def copy_checkout(to: Path) -> None:
    """Copy the checkout, with what is installed in its virtual environment, as a reader has it who has run the demo before."""
    shutil.copytree(ROOT, to, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
    (to / ".venv").mkdir()
    for item in (ROOT / ".venv").resolve().iterdir():
        if item.name != "installed-run":
            (to / ".venv" / item.name).symlink_to(item)
    lists = b"".join((to / name).read_bytes() for name in ("requirements.txt", "constraints.txt"))
    (to / ".venv" / "installed-run").write_text(f"{hashlib.sha256(lists).hexdigest()}  -\n")


class Lesson:
    """A reader of one lesson. A class of it has a method for each ``do`` of the page."""

    page: Path

    def __init__(self, checkout: Path, environment: dict[str, str]) -> None:
        self.checkout, self.environment = checkout, environment
        #: what the reader types, by the name of ``given``
        self.typed: dict[str, str] = {}
        #: what the last commands printed
        self.printed = ""
        self._terminals: dict[str, subprocess.Popen[bytes]] = {}
        self._folder = checkout.parent / f"terminals-{self.page.stem}"
        self._count = 0

    def learn(self) -> None:
        """Do everything that the lesson says. Fail if commands fail or print something else, or if the page leaves out a deed."""
        done = set()
        for step in steps_of(self.page):
            if step.do:
                done.add(step.do)
                getattr(self, step.do)()
            elif step.terminal:
                self._open(step)
            elif step.is_repeated:
                wait_for(f"{step.printed}, repeating {step.commands}", partial(self._shows, step), COMMAND_SECONDS)
            elif wrong := self._run(step):
                raise AssertionError(f"{step.commands}printed:\n{self.printed}\nnot as the lesson shows: {wrong}")
        assert done == {name for name in vars(type(self)) if not name.startswith("_")} - {"page"}, (
            "the page asks for each deed"
        )

    @contextmanager
    def reading(self) -> Iterator["Lesson"]:
        """Open the terminal for most commands; at the end close all, with what runs in them."""
        self._folder.mkdir()
        entry, out = os.pipe()
        self._steps = os.fdopen(out, "w", buffering=1)
        self._shell = self._bash("shell", f"exec 9<&{entry} {entry}<&-{SHELL}", entry)
        os.close(entry)
        try:
            yield self
        finally:
            for name in list(self._terminals):
                self.interrupt(name)
            self._steps.close()
            try:
                os.killpg(self._shell.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self._shell.wait(20)

    def interrupt(self, name: str) -> int:
        """Press Ctrl-C in a terminal and return the exit status of what ran there."""
        process = self._terminals.pop(name)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
        return process.wait(COMMAND_SECONDS)

    def shown_in(self, name: str) -> str:
        """Return what a terminal of its own shows."""
        return (self._folder / f"{name}.log").read_text()

    def _bash(self, name: str, script: str, *descriptors: int) -> "subprocess.Popen[bytes]":
        with (self._folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                ["bash", "--norc", "-c", script],
                cwd=self.checkout,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=descriptors,
                start_new_session=True,
            )

    def _open(self, step: Step) -> None:
        process = self._terminals[step.terminal] = self._bash(step.terminal, f"exec {step.commands}")

        def shows() -> bool:
            if process.poll() is not None:
                raise AssertionError(f"{step.commands}has ended:\n{self.shown_in(step.terminal)}")
            return step.until in self.shown_in(step.terminal)

        wait_for(f"{step.until!r} of {step.commands}", shows, 2 * COMMAND_SECONDS)

    def _shows(self, step: Step) -> bool:
        return not self._run(step)

    def _run(self, step: Step) -> str:
        """Run commands in the reader's terminal. Return what is wrong with them."""
        self._count += 1
        file = self._folder / f"{self._count}"
        file.write_text(step.commands)
        file.with_suffix(".given").write_text(self.typed[step.given] + "\n" if step.given else "")
        self._steps.write(f"{file}\n")
        failed = file.with_suffix(".failed")
        wait_for(f"the end of {step.commands}", failed.exists, COMMAND_SECONDS, every_seconds=0.05)
        self.printed = file.with_suffix(".printed").read_text()
        if failed.read_text().strip() == "yes":
            return "a command failed"
        return "\n".join(missing(step.printed, self.printed))
