"""In which order files start where processes share them: long ones first, so that no process waits for one at the end."""

import pytest

#: Minutes each. Only of the first folder of a run, or without a folder's fixtures: no process returns to a dashboard that it has stopped.
LONG = (
    "tests/client/test_backup_report.py",
    "tests/databases/test_app_on_mariadb.py",
    "tests/databases/test_app_on_postgresql.py",
    "tests/tutorial/test_lessons.py",
    "tests/faults/test_network.py",
    "tests/faults/test_guard.py",
    "tests/faults/test_process.py",
    "tests/faults/test_hosts.py",
    "tests/drivers/test_load_rounds.py",
    "tests/drivers/test_series.py",
    "tests/drivers/test_waits.py",
    "tests/lab/test_interrupted_runs.py",
    "tests/deployed/test_bundle.py",
    "tests/deployed/test_clocks.py",
)
#: The fixture with the dashboard of a folder.
DASHBOARD = "stack"


def put_in_order(items: list[pytest.Item]) -> None:
    """Put the tests of long files to the front, and those that share their folder's dashboard to the end of the folder.

    A folder's dashboard runs from its first use to the end of the folder, also while a file has one of its own.
    """
    places = {path: place for place, path in enumerate(LONG)}
    items.sort(key=lambda item: places.get(_file(item), len(places)))
    sharing = {_file(item) for item in items if _shares_a_dashboard(item)}
    for folder in {file.rpartition("/")[0] for file in sharing}:
        at = [place for place, item in enumerate(items) if _file(item).rpartition("/")[0] == folder]
        ordered = sorted((items[place] for place in at), key=lambda item: _file(item) in sharing)
        for place, item in zip(at, ordered, strict=True):
            items[place] = item


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _shares_a_dashboard(item: pytest.Item) -> bool:
    module = getattr(item, "module", None)
    return DASHBOARD in getattr(item, "fixturenames", ()) and not hasattr(module, DASHBOARD)
