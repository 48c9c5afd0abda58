"""Relax settings of the target's server while its copy is replaceable, and restore them before it counts as healthy.

The value of a variable is stored in ``run.checkpoint`` before it is changed. If a driver dies in between, the next one sets the variable
again and knows the old value. Nothing is persisted: a restarted server has the values of its option files.

In the checkpoint, ``relaxed`` lists the current changes and their server process. ``undurable`` means that a crash may cost the copy,
until everything is on the disk. ``worthless`` means that such a crash has happened.
"""

from contextlib import closing
from typing import Any

from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.relaxed_durability import Relaxation, is_settable, relaxations, same_value, set_global
from dbops.engine.hosts.jobs import IN_BASH, job_must_succeed, pairs
from dbops.engine.hosts.scripts import load
from dbops.engine.phrases import phrase
from dbops.engine.ports import Database, JobStatus
from dbops.engine.rebuilds.plan import Plan, PlannedCommand
from dbops.engine.rebuilds.steps.replicate.replication import read_link
from dbops.engine.rebuilds.steps.run import Run, StepOutcome, again
from dbops.engine.states import Level

#: How often host and server are checked while their crash would cost the copy.
CHECK_SECONDS = 5.0
#: The job that waits until everything is on the disk, and how long the clean-up waits for the same.
SETTLE, SETTLE_AT_END_SECONDS = "settle", 8.0
#: More appliers than this only wait for each other.
APPLIERS_MAXIMUM = 16


def choose_appliers(cpu_count: int) -> int:
    """Return the minimum number of parallel appliers for catching up: two for each core, as some always wait."""
    return min(APPLIERS_MAXIMUM, max(4, 2 * cpu_count))


def relax_commands(plan: Plan) -> tuple[PlannedCommand, ...]:
    """Return the possible statements of ``relax``, for the plan page."""
    if not plan.relaxes:
        return ()
    return tuple(
        PlannedCommand(
            plan.target.name,
            f"{set_global(item.variable, item.value)}   # if set to {'less' if item.is_minimum else 'more'}",
        )
        for item in _relaxations(plan)
    )


def restore_commands(plan: Plan) -> tuple[PlannedCommand, ...]:
    """Return the statements of ``end_relaxation``, for the plan page."""
    if not plan.relaxes:
        return ()
    back = (f"SET GLOBAL {item.variable} = (its earlier value)" for item in _relaxations(plan))
    return (*(PlannedCommand(plan.target.name, text) for text in back), PlannedCommand(plan.target.name, _sync(plan)))


def relax(run: Run, database: Database) -> None:
    """Relax the remaining settings on the current server. This can run any number of times. Raises as ``watch`` and ``Database.query``."""
    if not run.plan.relaxes:
        return
    watch(run)
    state = _state(run, database)
    if state is None:
        return
    for item in _relaxations(run.plan):
        if item.variable not in state["seen"]:
            _relax_one(run, database, state, item)
            state["seen"].append(item.variable)
    if not state["logged"]:
        _log_relaxed(run, state)
        state["logged"] = True


def watch(run: Run, *, at_once: bool = False) -> None:
    """Check at intervals that neither host nor server crashed in a way that costs the copy.

    Raises:
        RemoteFailure: one did (``copy.worthless``).
        Unreachable: the state is unknown.
    """
    if "undurable" not in run.checkpoint and "relaxed" not in run.checkpoint:
        return
    now = run.clock.now()
    if at_once or now - run.checkpoint.get("relaxed.checked_at", 0.0) >= CHECK_SECONDS:
        found = _start_times(run)
        run.checkpoint["relaxed.checked_at"] = now
        _must_be_worth(run, found)
        _forget_another_server(run, found)


def end_relaxation(run: Run, database: Database) -> StepOutcome | None:
    """Restore every setting and check that the copy is on the disk. Return when to continue, ``None`` when it is done.

    Raises:
        RemoteFailure: the copy is worthless (``copy.worthless``), a setting did not take its old value (``relaxed.not_back``), or the
            disk does not accept the writes (``host.job``).
    """
    if "relaxed" in run.checkpoint:
        watch(run, at_once=True)
        restore_durability(run, database)
        return again(0.2)
    if "undurable" in run.checkpoint:
        return _settle(run)
    return None


def restore_durability(run: Run, database: Database) -> None:
    """Restore the old value of each setting. Raises ``relaxed.not_back``, or as ``Run.execute``."""
    state = run.checkpoint.get("relaxed")
    if state is None:
        return
    items = {item.variable: item for item in _relaxations(run.plan)}
    for variable, was in state["was"].items():
        stops = variable in items and items[variable].stops_applier
        _set(run, database, f"restore.{state['round']}.{variable}", set_global(variable, was), stops_applier=stops)
    for variable, was in state["was"].items():
        if not same_value(now := str(_read(database, variable)), was):
            raise RemoteFailure(
                "relaxed.not_back",
                phrase("Restoring the settings of {target}", target=run.plan.target.name),
                cause=phrase("{variable} is {now}, not {was}", variable=variable, now=now, was=was),
            )
    if state["was"]:
        values = ", ".join(f"{variable} = {was}" for variable, was in state["was"].items())
        run.journal.say(phrase("Settings restored: {values}.", values=values), host=run.plan.target.host)
    del run.checkpoint["relaxed"]


def restore_durability_at_end(run: Run) -> None:
    """Restore every setting on a running server, whatever the rebuild's result. Raises as ``restore_durability``, or ``Unreachable``."""
    if "relaxed" not in run.checkpoint and "undurable" not in run.checkpoint:
        return
    found = _start_times(run)
    if not run.checkpoint.get("worthless") and (why := _find_worthless(run, found)):
        run.journal.say(phrase("The copy is unusable: {why}.", why=why), level=Level.ERROR, host=run.plan.target.host)
    _forget_another_server(run, found)
    if "relaxed" in run.checkpoint:
        with closing(run.target.connect(10.0)) as database:
            _forget_another_server(run, _start_times_of(run, database))
            restore_durability(run, database)
    _try_to_settle(run)


# --- one setting ----------------------------------------------------------------------------------------------------------


def _relaxations(plan: Plan) -> tuple[Relaxation, ...]:
    return relaxations(flavor_for(plan.source.version, plan.flavor), appliers=plan.appliers, gtid=plan.uses_gtid)


def _state(run: Run, database: Database) -> dict[str, Any] | None:
    """Return the relaxed settings of the current server, initially empty; ``None`` if none may be relaxed."""
    state: dict[str, Any] | None = run.checkpoint.get("relaxed")
    if state and state["logged"]:
        return state
    found = _start_times_of(run, database)
    _forget_another_server(run, found)
    if not found["server"]:
        return None  # without server facts a crash would go unnoticed, so nothing is relaxed
    state = run.checkpoint.get("relaxed")
    if state is None:
        number = run.checkpoint["relaxed.round"] = run.checkpoint.get("relaxed.round", 0) + 1
        state = run.checkpoint["relaxed"] = {
            **{"server": found["server"], "boot": found["boot"], "round": number},
            **{"was": {}, "seen": [], "logged": False},
        }
    return state


def _relax_one(run: Run, database: Database, state: dict[str, Any], item: Relaxation) -> None:
    if item.variable not in state["was"]:
        was = _read(database, item.variable)
        if was is None or not is_settable(was) or not item.is_worth_it(was) or not _has_what_it_needs(database, item):
            return
        state["was"][item.variable] = was
    _mark_undurable(run, state, item)
    key = f"relax.{state['round']}.{item.variable}"
    try:
        _set(run, database, key, set_global(item.variable, item.value), stops_applier=item.stops_applier)
    except Unreachable:
        raise
    except RemoteFailure as error:  # the rebuild is only slower without
        run.journal.finished(key, 1, str(error))
        run.journal.say(
            phrase("{variable} is unchanged: {error}", variable=item.variable, error=error),
            level=Level.WARNING,
            host=run.plan.target.host,
        )
        del state["was"][item.variable]


def _mark_undurable(run: Run, state: dict[str, Any], item: Relaxation) -> None:
    if item.durability:
        mark = run.checkpoint.setdefault("undurable", {"boot": state["boot"], "server": ""})
        if item.durability == "server":
            mark["server"] = state["server"]


def _set(run: Run, database: Database, key: str, statement: str, *, stops_applier: bool) -> None:
    """Run the statement, with the applier stopped for it if required. A driver that died in between left it stopped."""
    if stops_applier:
        link = read_link(database, run.flavor)
        if link is not None and link.sql_running == "Yes":
            run.checkpoint["relaxed.applier"] = "stopped"
            run.execute(run.target, database, f"{key}.stop", run.flavor.pause_applier())
    try:
        run.execute(run.target, database, key, statement)
    finally:
        if stops_applier and run.checkpoint.get("relaxed.applier"):
            run.execute(run.target, database, f"{key}.start", run.flavor.resume_applier())
            del run.checkpoint["relaxed.applier"]


def _read(database: Database, variable: str) -> str | None:
    """Return the value of a global variable, ``None`` if the server does not have it."""
    rows = database.query(f"SHOW GLOBAL VARIABLES WHERE Variable_name = '{variable}'")
    return str(rows[0]["Value"]) if rows else None


def _has_what_it_needs(database: Database, item: Relaxation) -> bool:
    return all(same_value(_read(database, name) or "", value) for name, value in item.needs)


def _log_relaxed(run: Run, state: dict[str, Any]) -> None:
    target = run.plan.target
    if not state["was"]:
        run.journal.say(phrase("No settings of {target} to relax.", target=target.name), host=target.host)
        return
    wanted = {item.variable: item for item in _relaxations(run.plan)}
    changes = ", ".join(f"{name} {was} -> {wanted[name].value}" for name, was in state["was"].items() if name in wanted)
    mark = run.checkpoint.get("undurable")
    costs = (
        ""
        if not mark
        else phrase(
            " If {what} down before that, the copy is worthless.",
            what=phrase("server or host goes") if mark["server"] else phrase("the host goes"),
        )
    )
    run.journal.say(
        phrase(
            "Relaxed until {target} has caught up: {changes}.{costs}", target=target.name, changes=changes, costs=costs
        ),
        host=target.host,
    )


# --- host and server ------------------------------------------------------------------------------------------------------


def _start_times(run: Run) -> dict[str, str]:
    """Return the start times of machine (``boot``) and server (``server``, ``""`` if none runs). Raises as ``Jobs.act``."""
    result = run.target.jobs.act(IN_BASH, load("common", "inspect_server"), run.plan.target.datadir)
    found = pairs(result.stdout)
    return {"boot": found.get("boot", ""), "server": found.get("server", "")}


def _start_times_of(run: Run, database: Database) -> dict[str, str]:
    """Return the same for the server behind this connection: it answered before and afterwards, so it is the same server."""
    database.query("SELECT 1 AS here")
    found = _start_times(run)
    database.query("SELECT 1 AS here")
    return found


def _find_worthless(run: Run, found: dict[str, str]) -> str:
    """Return, and remember, why the copy is worthless, ``""`` if it is not."""
    mark = run.checkpoint.get("undurable")
    if mark and not run.checkpoint.get("worthless"):
        if mark["boot"] and found["boot"] and found["boot"] != mark["boot"]:
            run.checkpoint["worthless"] = phrase("its host restarted while commits were not flushed to disk")
        elif mark["server"] and found["server"] != mark["server"]:
            run.checkpoint["worthless"] = phrase("its server ended while doublewrite was off")
    return str(run.checkpoint.get("worthless", ""))


def _must_be_worth(run: Run, found: dict[str, str]) -> None:
    if why := _find_worthless(run, found):
        raise RemoteFailure(
            "copy.worthless",
            phrase("Catching up {target} with relaxed settings", target=run.plan.target.name),
            cause=why,
        )


def _forget_another_server(run: Run, found: dict[str, str]) -> None:
    """Forget the relaxed settings of an ended server: another one has the values of its option files."""
    state = run.checkpoint.get("relaxed")
    if state and state["server"] != found["server"]:
        del run.checkpoint["relaxed"]
        run.checkpoint.pop("relaxed.applier", None)
        if found["server"]:
            text = phrase("The server restarted and uses the settings of its option files. No committed data was lost.")
        else:
            text = phrase("The server no longer runs, so no setting is relaxed.")
        run.journal.say(text, level=Level.WARNING, host=run.plan.target.host)


# --- on the disk ----------------------------------------------------------------------------------------------------------


def _sync(plan: Plan) -> str:
    return f"find {plan.target.datadir} -xdev -type f -exec sync -- {{}} +"


def _copy(run: Run) -> tuple[str, str]:
    return run.plan.target.datadir, run.plan.target.os_user


def _settle(run: Run) -> StepOutcome:
    """Wait until pending writes are on the disk: from then on a crash costs nothing."""
    if not run.checkpoint.get("settle.started"):
        run.start_job(run.target, SETTLE, _sync(run.plan), load("common", "sync_copy"), *_copy(run), lock=SETTLE)
        run.checkpoint["settle.started"] = True
    state = run.target.jobs.follow(SETTLE, wait_seconds=0.8)
    if state.status is JobStatus.RUNNING:
        run.journal.progress(note=phrase("flushing data to disk"))
        return again()
    if state.status is JobStatus.ABSENT:
        del run.checkpoint["settle.started"]
        return again()
    watch(run, at_once=True)
    run.journal.finished(SETTLE, state.exit_status, state.tails.get("out", ""))
    job_must_succeed(state, phrase("Writing the copy on {target} to the disk", target=run.plan.target.name))
    del run.checkpoint["undurable"]
    return again(0.1)


def stop_sync(run: Run) -> None:
    """End the wait for the disk if it was begun."""
    if run.checkpoint.get("settle.started") and "undurable" in run.checkpoint:
        run.target.jobs.stop(SETTLE)


def _try_to_settle(run: Run) -> None:
    """Wait some seconds for the disk when a rebuild does not succeed: a copy that is resumed is then as good as any."""
    if "undurable" not in run.checkpoint or run.checkpoint.get("worthless"):
        return
    script = load("common", "sync_copy")
    try:
        result = run.target.jobs.act(IN_BASH, script, *_copy(run), timeout_seconds=SETTLE_AT_END_SECONDS)
    except RemoteFailure:
        return
    if result.exit_status == 0:
        del run.checkpoint["undurable"]
