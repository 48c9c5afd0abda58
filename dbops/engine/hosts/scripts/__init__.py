"""The shell that runs on hosts: constant text; what varies comes as arguments. shellcheck reads these files."""

from importlib.resources import files


def load_python(name: str) -> str:
    """Return a program that runs on hosts with their own Python."""
    return files(__name__).joinpath(f"{name}.py").read_text()


def load(*names: str) -> str:
    """Return the named scripts (without ``.sh``), joined: functions first, then what uses them."""
    return "\n".join(files(__name__).joinpath(f"{name}.sh").read_text() for name in names)
