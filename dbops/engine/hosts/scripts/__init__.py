"""Programs that run on hosts: constant text; arguments carry what varies. shellcheck reads these files.

Folders group the programs by what they serve: ``inspect``, ``source``, ``target``, ``backups``, ``restore_tests``. Names are unique.
"""

from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable


def load(*names: str) -> str:
    """Return the named shell scripts (without ``.sh``), joined: functions first, then what uses them."""
    return "\n".join(_programs()[f"{name}.sh"].read_text() for name in names)


def load_python(name: str) -> str:
    """Return a program (without ``.py``) that runs on hosts with their own Python."""
    return _programs()[f"{name}.py"].read_text()


@cache
def _programs() -> dict[str, Traversable]:
    here = files(__name__)
    folders = [here, *(entry for entry in here.iterdir() if entry.is_dir())]
    return {entry.name: entry for folder in folders for entry in folder.iterdir() if entry.is_file()}
