"""In which order files start where processes share them: long ones first, so that no process waits for one at the end."""

import pytest

#: Minutes each. Only of the first folder of a run, or without a folder's fixtures: no process returns to a dashboard that it has stopped.
LONG = (
    "tests/databases/test_app_on_mariadb.py",
    "tests/databases/test_app_on_postgresql.py",
    "tests/faults/test_network.py",
    "tests/faults/test_guard.py",
    "tests/faults/test_process.py",
    "tests/faults/test_hosts.py",
)


def longest_first(items: list[pytest.Item]) -> None:
    """Put the tests of long files to the front; all others keep their order."""
    places = {path: place for place, path in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(places)))
