"""Machines whose wall clock is wrong: processes with a preloaded library that shifts it."""

import functools
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests import run_folder

SOURCE = Path(__file__).with_name("shifted.c")


@functools.cache
def library() -> Path:
    """Compile the library, once for each test process."""
    built = run_folder.new_folder("clock") / "shifted.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", built, SOURCE, "-ldl"], check=True, capture_output=True)
    return built


class ShiftedClock:
    """The wall clock of one machine. It is right until ``set``."""

    def __init__(self, name: str = "clock") -> None:
        self.file = library().with_name(name)
        self.set(0)

    @property
    def environment(self) -> dict[str, str]:
        """Variables of a process on this machine."""
        return {"LD_PRELOAD": str(library()), "SHIFTED_CLOCK": str(self.file)}

    def set(self, seconds: int) -> None:
        """Set the clock: ``seconds`` ahead of the true time."""
        self.seconds = seconds
        new = self.file.with_suffix(".new")
        new.write_text(str(seconds))
        new.replace(self.file)

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.seconds)
