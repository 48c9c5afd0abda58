"""Result of a connection test."""

from dataclasses import dataclass, field
from typing import Any

from dbops.engine.phrases import joined, phrase


@dataclass(slots=True)
class TestReport:
    """Findings of a test so far; kept whether the test passes or not."""

    checks: list[dict[str, Any]] = field(default_factory=list)
    commands: list[dict[str, str]] = field(default_factory=list)
    measured: dict[str, Any] = field(default_factory=dict)

    def check(self, title: str, text: str, *, ok: bool = True) -> bool:
        self.checks.append({"title": title, "text": text, "ok": ok})
        return ok

    @property
    def failures(self) -> str:
        """The failed checks as one text, empty if there are none."""
        return joined(
            (phrase("{title}: {text}", title=one["title"], text=one["text"]) for one in self.checks if not one["ok"]),
            "; ",
        )

    def command(self, place: str, text: str) -> None:
        self.commands.append({"place": place, "text": text})

    def as_record(self) -> dict[str, Any]:
        return {"checks": self.checks, "commands": self.commands, **self.measured}
