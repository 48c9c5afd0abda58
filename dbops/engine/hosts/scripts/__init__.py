"""Load the programs that run on hosts.

The programs are constant text with arguments, checked by shellcheck. Folders group them by purpose: ``inspect``, ``source``,
``target``, ``backups``, ``restore_tests``, ``load_tests``. Names are unique.
"""

from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable


def load(*names: str) -> str:
    """Return the named shell scripts (without ``.sh``), joined, with functions first."""
    return "\n".join(_programs()[f"{name}.sh"].read_text() for name in names)


def load_python(name: str) -> str:
    """Return a program (without ``.py``) that the host's Python runs."""
    return _programs()[f"{name}.py"].read_text()


def load_lua(name: str) -> str:
    """Return a program (without ``.lua``) that sysbench on the host runs."""
    return _programs()[f"{name}.lua"].read_text()


@cache
def _programs() -> dict[str, Traversable]:
    here = files(__name__)
    folders = [here, *(entry for entry in here.iterdir() if entry.is_dir())]
    return {entry.name: entry for folder in folders for entry in folder.iterdir() if entry.is_file()}
