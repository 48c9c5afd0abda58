"""Settings of a target's own that a rebuild relaxes while its copy rolls forward, and puts back."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tests.stack import Stack

from .host_state import last_rebuild, one


@contextmanager
def own_settings(stack: Stack, name: str, values: Mapping[str, str]) -> Iterator[None]:
    """Put settings into an instance's option file: they hold from its next start on."""
    file = stack.lab.host(name).config_file
    before = file.read_text()
    file.write_text(before + "[mysqld]\n" + "".join(f"{key} = {value}\n" for key, value in values.items()))
    try:
        yield
    finally:
        file.write_text(before)


def relaxed_and_put_back(stack: Stack) -> dict[str, tuple[str, str]]:
    """Return what the last rebuild set each variable to while the copy rolled forward, and what afterwards."""
    rows = stack.rows(
        'SELECT "key" AS k, text FROM dbops_executedcommand WHERE rebuild_id = ? AND exit_status = 0 ORDER BY id',
        last_rebuild(stack)["id"],
    )
    said: dict[str, dict[str, str]] = {"relax": {}, "restore": {}}
    for row in rows:
        kind, _, rest = row["k"].partition(".")
        if kind in said:
            said[kind][rest.rpartition(".")[2]] = row["text"].rpartition(" = ")[2].strip("'")
    return {variable: (value, said["restore"].get(variable, "")) for variable, value in said["relax"].items()}


def values_of(stack: Stack, name: str, *variables: str) -> dict[str, str]:
    found = one(stack, name, "SELECT " + ", ".join(f"@@GLOBAL.{variable} AS {variable}" for variable in variables))
    return {variable: str(value) for variable, value in found.items()}
