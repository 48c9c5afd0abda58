"""A reader with a browser at the dashboard that `script/demo` started."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser

from tests.browser.chromium import Visitor, visitor

from .lessons import Lesson


class DemoLesson(Lesson):
    """A lesson at the demo, which runs in the terminal ``demo``."""

    def __init__(self, checkout: Path, environment: dict[str, str], browser: Browser) -> None:
        super().__init__(checkout, environment)
        self._browser = browser
        self._people: dict[str, Visitor] = {}

    @contextmanager
    def reading(self) -> Iterator[Lesson]:
        """Also close the windows at the end. Nothing may have gone wrong in them."""
        with super().reading():
            try:
                yield self
            finally:
                self._close_windows()
        faults = [fault for person in self._people.values() for fault in person.faults]
        assert not faults, faults

    def _close_windows(self) -> None:
        """Close them, also before the demo stops: a window without its dashboard reports faults."""
        for person in self._people.values():
            person.context.close()

    @property
    def url(self) -> str:
        """The address of the dashboard, without a slash at its end."""
        running = json.loads((self.checkout / "var" / "demo" / "running.json").read_text())
        return str(running["address"]).rstrip("/")

    def password(self, name: str) -> str:
        """Return the password that the demo has printed for an account."""
        [found] = set(re.findall(rf"log in as +{name} +password +(\S+)", self.shown_in("demo")))
        return str(found)

    def person(self, name: str) -> Visitor:
        """Return the window of a person. It opens with the first use."""
        if name not in self._people:
            self._people[name] = visitor(self._browser, self.url)
        return self._people[name]
