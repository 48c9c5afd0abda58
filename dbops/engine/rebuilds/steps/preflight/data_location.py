"""Find the target's old and new data on the host when a rebuild fails, without guessing."""

from dbops.engine.hosts.jobs import IN_BASH, pairs
from dbops.engine.hosts.scripts import load
from dbops.engine.phrases import Phrase, joined, phrase
from dbops.engine.rebuilds.steps.run import Run


def inspect_host(run: Run) -> None:
    """Find out on the target's host what is there now, and remember it. Raises as ``Jobs.act``."""
    target, aside = run.plan.target, run.plan.aside_path
    result = run.target.jobs.act(IN_BASH, load("common", "inspect_target"), target.datadir, aside, run.copy_run)
    found = run.checkpoint["found"] = pairs(result.stdout)
    if old_data_is_aside(run) and not run.checkpoint.get("aside_identity"):
        # the move was made, but its driver died before recording it
        run.checkpoint["aside_path"], run.checkpoint["aside_identity"] = aside, found["aside"]


def old_data_is_aside(run: Run) -> bool:
    """Return whether the old data was found where the plan moves it.

    A rename keeps the directory's inode. If the data directory is a mount point, its content moved into a new directory inside it, and
    only the content identifies it.
    """
    found, target = run.checkpoint.get("found") or {}, run.plan.target
    aside = found.get("aside", "")
    is_mount = run.plan.aside_path.startswith(f"{target.datadir}/")
    return bool(aside) and (is_mount or aside == target.datadir_identity)


def _is_between(run: Run, found: dict[str, str]) -> bool:
    """Return whether files of the old data are in both places: a mount point's content moves file by file."""
    by_file = run.plan.aside_path.startswith(f"{run.plan.target.datadir}/")
    return by_file and not (found.get("new") or found.get("leaving") or found.get("empty"))


def old_data(run: Run) -> str:
    """Return a sentence on the old data, from the output of the move."""
    aside = run.checkpoint.get("aside_path", "")
    return (
        phrase("Its old data is at {path}.", path=aside) if aside else phrase("Old data: none, or removed as planned.")
    )


def describe_data_location(run: Run) -> str:
    """Return, for a failed rebuild's result, the location of all data on the target and what to do with it."""
    target, found = run.plan.target, run.checkpoint.get("found")
    if not run.checkpoint.get("touched"):
        return phrase("Nothing on {target} was changed.", target=target.name)
    if found is None:
        is_moved_or_kept = run.plan.aside_path and not run.checkpoint.get("aside_path")
        where = (
            phrase("If its old data was moved, it is at {path}.", path=run.plan.aside_path)
            if is_moved_or_kept
            else old_data(run)
        )
        return phrase("{target} could not be checked again. {where}", target=target.name, where=where)
    runs = found.get("pids", "").strip()
    if "incomplete_copy" in run.checkpoint and not (found.get("new") or found.get("aside")):
        older = run.checkpoint["incomplete_copy"]
        where = phrase(" The old data is at {path}.", path=older) if older else ""
        return phrase(
            "An incomplete copy of the rebuild before is at {datadir}. Do not start a server on it.{where}",
            datadir=target.datadir,
            where=where,
        )
    aside = old_data_is_aside(run)
    if not found.get("new") and not aside and (run.plan.aside_path or not found.get("moved")):
        state = (
            phrase("the server runs")
            if runs
            else phrase("the server is stopped; start it with {command}", command=target.start_command)
        )
        if runs and found.get("stopping"):  # a requested stop continues, although this run has ended
            state = phrase(
                "the server still runs after the stop command; wait until it stops, then start it with {command}",
                command=target.start_command,
            )
        return phrase(
            "The old data of {target} is in place at {datadir}; {state}.",
            target=target.name,
            datadir=target.datadir,
            state=state,
        )
    if aside and not runs and _is_between(run, found):
        return phrase(
            "The old data of {target} is partly at {path} and partly at {datadir}: the move was interrupted. "
            "Rolling back reunites it. The server is stopped.",
            target=target.name,
            path=run.plan.aside_path,
            datadir=target.datadir,
        )
    return _new_data(run, found, aside=aside, runs=bool(runs))


def _new_data(run: Run, found: dict[str, str], *, aside: bool, runs: bool) -> Phrase:
    """Return where the data is after the old data was moved or removed."""
    target = run.plan.target
    parts: list[Phrase] = []
    if aside:
        parts.append(phrase("The old data of {target} is at {path}.", target=target.name, path=run.plan.aside_path))
    if runs:
        condition = (
            phrase("is unusable: {reason}", reason=run.checkpoint["worthless"])
            if run.checkpoint.get("worthless")
            else phrase("was not verified")
        )
        parts.append(
            phrase(
                "The server runs on the new data at {datadir}, which {condition}.",
                datadir=target.datadir,
                condition=condition,
            )
        )
    elif found.get("empty"):
        parts.append(phrase("{datadir} is empty, and the server is stopped.", datadir=target.datadir))
    else:
        parts.append(
            phrase("The copy at {datadir} is not usable as it is. The server is stopped.", datadir=target.datadir)
        )
    return joined(parts)


def describe_service(run: Run) -> str:
    """Return the outcome of a successful rebuild."""
    target, aside = run.plan.target, run.checkpoint.get("aside_path", "")
    parts = [
        phrase(
            "{target} serves, replicates from {source} and has caught up.", target=target.name, source=run.followed.name
        )
    ]
    if older := run.checkpoint.get("incomplete_copy"):
        parts.append(
            phrase(
                "The old data of an earlier rebuild is still at {path}. Remove it when it is no longer needed.",
                path=older,
            )
        )
    if aside:
        parts.append(phrase("The old data is kept at {path}.", path=aside))
    return joined(parts)
