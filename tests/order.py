"""In which order files start where processes share them: long ones first, so that no process waits for one at the end."""

import pytest

#: Minutes each. Without a folder's fixtures, or with a dashboard for each module: a process can leave the folder after them.
LONG = (
    "tests/databases/test_app.py",
    "tests/faults/test_process.py",
    "tests/faults/test_hosts.py",
    "tests/faults/test_aftermath.py",
)


def longest_first(items: list[pytest.Item]) -> None:
    """Put the tests of long files to the front; all others keep their order."""
    places = {path: place for place, path in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(places)))
