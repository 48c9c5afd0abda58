"""What of the target's old and new data is where: looked up on the host when a rebuild ends badly, never guessed."""

from dbops.engine.scripts import load
from dbops.engine.steps.run import IN_BASH, Run, pairs


def look(run: Run) -> None:
    """Ask the target's host what is there now, and remember it. Raises as ``Jobs.act``."""
    target, aside = run.plan.target, run.plan.aside_path
    result = run.target.jobs.act(IN_BASH, load("common", "look_target"), target.datadir, aside)
    run.memory["found"] = pairs(result.stdout)


def old_data(run: Run) -> str:
    """Return a sentence on the old data, from what the move itself said."""
    aside = run.memory.get("aside_path", "")
    return f"Its old data is at {aside}." if aside else "There was no old data to keep, or it was removed as planned."


def where_things_are(run: Run) -> str:
    """Return, for the person who reads how a rebuild ended, what is where on the target and what to do with it."""
    target, found = run.plan.target, run.memory.get("found")
    if not run.memory.get("touched"):
        return f"Nothing on {target.name} was changed."
    if found is None:
        return f"{target.name} could not be looked at again. {old_data(run)}"
    runs = found.get("pids", "").strip()
    if not found.get("moved"):
        state = "the server runs" if runs else f"the server is stopped: start it with {target.start_command}"
        return f"The old data of {target.name} is in place at {target.datadir}; {state}."
    parts = []
    if found.get("aside"):
        parts.append(f"The old data of {target.name} is at {run.plan.aside_path}.")
    if runs:
        parts.append(f"The server runs on the new data at {target.datadir}, which was not verified.")
    elif found.get("empty"):
        parts.append(f"{target.datadir} is empty, and the server is stopped.")
    else:
        parts.append(f"What was copied is at {target.datadir}; it is not usable. The server is stopped.")
    return " ".join(parts)
