"""Settings that keep a started copy quiet until it replicates, and the target's own events, which its old data had enabled.

Each value is stored in ``run.checkpoint`` before it is changed. Nothing is persisted: a restarted server has the values of its option
files, which are those that come back. A copy that is never verified stays quiet.
"""

from contextlib import closing, suppress

from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.flavors import Flavor, flavor_for
from dbops.engine.flavors.privileges import SHOW_GRANTS
from dbops.engine.flavors.quiet import (
    QuietSetting,
    can_come_back,
    clients,
    enable_event,
    enabled_events,
    gets_in,
    quiet_settings,
)
from dbops.engine.flavors.relaxed_durability import same_value
from dbops.engine.phrases import phrase
from dbops.engine.ports import Database
from dbops.engine.rebuilds.plan import Plan, PlannedCommand
from dbops.engine.rebuilds.steps.run import Run
from dbops.engine.states import Level

#: The most events of one target that are enabled again one by one.
EVENTS_MAXIMUM = 200


def remember_events(run: Run) -> None:
    """Remember which events the target's old data had enabled, while its server still runs. The copy has the source's states."""
    if not run.plan.target.is_answering or "own_events" in run.checkpoint:
        return
    with suppress(RemoteFailure), closing(run.target.connect(10.0)) as database:
        rows = database.query(enabled_events(run.flavor))
        run.checkpoint["own_events"] = [[str(row["db"]), str(row["name"])] for row in rows[:EVENTS_MAXIMUM]]


def begin_quiet(run: Run, database: Database) -> None:
    """Make the started copy quiet. A setting that the account may not change stays, with a warning. Raises as ``Database.query``."""
    before: dict[str, str] = run.checkpoint.setdefault("quiet", {})
    may = gets_in(run.flavor, (text for row in database.query(SHOW_GRANTS) for text in map(str, row.values())))
    for setting in quiet_settings(run.flavor):
        if setting.locks_out and not may:
            continue
        _make_quiet(run, database, before, setting)
        # a driver can die after it kept new clients out and before it ended those that were in
        if setting.locks_out and _read(database, setting.variable) == setting.value:
            _end_clients(run, database)
    if before:
        run.journal.say(
            phrase("Quiet until it is verified: {settings}.", settings=", ".join(before)), host=run.plan.target.host
        )


def end_quiet(run: Run, database: Database) -> None:
    """Put every setting back, and enable the target's own events again. This can run any number of times.

    Raises:
        RemoteFailure: a setting did not take its earlier value (``quiet.not_back``), or as ``Database.query``.
    """
    before = run.checkpoint.get("quiet")
    if before is None:
        return
    for setting in quiet_settings(run.flavor):
        if (name := setting.variable) in before:
            run.execute(run.target, database, f"quiet.end.{name}", setting.statement(before[name]))
    for variable, value in before.items():
        if not same_value(now := _read(database, variable) or "", value):
            raise RemoteFailure(
                "quiet.not_back",
                phrase("Restoring the settings of {target}", target=run.plan.target.name),
                cause=phrase("{variable} is {now}, not {value}", variable=variable, now=now, value=value),
            )
    if before:
        values = ", ".join(f"{variable} = {value or '(empty)'}" for variable, value in before.items())
        run.journal.say(phrase("No longer quiet: {values}.", values=values), host=run.plan.target.host)
    _enable_own_events(run, database)
    del run.checkpoint["quiet"]


def say_still_quiet(run: Run) -> None:
    """Say of a copy that was not verified that it stays quiet, and what ends that."""
    if (before := run.checkpoint.get("quiet")) and not run.checkpoint.get("verified"):
        text = phrase(
            "{target} stays quiet ({settings}) until a resume verifies it or its server is restarted.",
            target=run.plan.target.name,
            settings=", ".join(before),
        )
        run.journal.say(text, level=Level.WARNING, host=run.plan.target.host)


def begin_commands(plan: Plan) -> tuple[PlannedCommand, ...]:
    """Return the statements of ``begin_quiet``, for the plan page."""
    return tuple(
        PlannedCommand(plan.target.name, f"{item.statement(item.value)}   # if it is not so")
        for item in quiet_settings(_flavor(plan))
    )


def end_commands(plan: Plan) -> tuple[PlannedCommand, ...]:
    """Return the statements of ``end_quiet``, for the plan page."""
    return tuple(
        PlannedCommand(plan.target.name, f"SET GLOBAL {item.variable} = (its earlier value)")
        for item in quiet_settings(_flavor(plan))
    )


def _flavor(plan: Plan) -> Flavor:
    return flavor_for(plan.source.version, plan.flavor)


def _make_quiet(run: Run, database: Database, before: dict[str, str], setting: QuietSetting) -> None:
    """Set one variable, if it is loud and can come back."""
    now = _read(database, setting.variable)
    if now is None or not can_come_back(now) or not setting.is_loud(now):
        return
    before.setdefault(setting.variable, now)
    key = f"quiet.begin.{setting.variable}"
    try:
        run.execute(run.target, database, key, setting.statement(setting.value))
    except Unreachable:
        raise
    except RemoteFailure as error:  # the data is quiet already
        run.journal.finished(key, 1, str(error))
        run.journal.say(
            phrase("{variable} is unchanged: {error}", variable=setting.variable, error=error),
            level=Level.WARNING,
            host=run.plan.target.host,
        )
        del before[setting.variable]


def _end_clients(run: Run, database: Database) -> None:
    """End the connections that were made since the server started."""
    if not (statement := clients(run.flavor)):
        return
    for row in database.query(statement):
        key = f"quiet.client.{row['id']}"
        try:
            run.execute(run.target, database, key, f"KILL {int(row['id'])}")
        except Unreachable:
            raise
        except RemoteFailure as error:  # it has just ended
            run.journal.finished(key, 1, str(error))


def _enable_own_events(run: Run, database: Database) -> None:
    """Enable the events again that the target ran before. One that cannot be is named: the operator decides."""
    wanted = {tuple(event) for event in run.checkpoint.get("own_events", ())}
    if not wanted:
        return
    rows = database.query(
        "SELECT EVENT_SCHEMA AS db, EVENT_NAME AS name, DEFINER AS definer FROM information_schema.EVENTS"
    )
    found = {(str(row["db"]), str(row["name"])): str(row["definer"]) for row in rows}
    enabled, left = [], sorted(f"{schema}.{name}" for schema, name in wanted - found.keys())
    for number, (schema, name) in enumerate(sorted(wanted & found.keys())):
        key = f"quiet.event.{number}"
        try:
            run.execute(run.target, database, key, enable_event(schema, name, found[schema, name]))
            enabled.append(f"{schema}.{name}")
        except Unreachable:
            raise
        except RemoteFailure as error:
            run.journal.finished(key, 1, str(error))
            left.append(f"{schema}.{name}")
    if enabled:
        run.journal.say(
            phrase("Events that the target ran before run again: {events}.", events=", ".join(enabled)),
            host=run.plan.target.host,
        )
    if left:
        text = phrase(
            "Events that the target ran before are not enabled: {events}. Enable them if you need them.",
            events=", ".join(left),
        )
        run.journal.say(text, level=Level.WARNING, host=run.plan.target.host)


def _read(database: Database, variable: str) -> str | None:
    rows = database.query(f"SHOW GLOBAL VARIABLES WHERE Variable_name = '{variable}'")
    return str(rows[0]["Value"]) if rows else None
