"""Release the source: used when the copy is done, and again by the clean-up, whatever happened in between."""

from contextlib import closing

from dbops.engine.hosts.local_login import local_login
from dbops.engine.hosts.scripts import load
from dbops.engine.phrases import phrase
from dbops.engine.ports import JobState
from dbops.engine.rebuilds.steps.run import Run

#: The job of the first guard on the source; later guards have a number.
GUARD = "guard"


def start_guard(run: Run, name: str) -> JobState:
    """Start the guard on the source, before any change there. Raises as ``Run.start_job``.

    Return its state: an earlier one of that name that has ended no longer guards. A guard releases the source as soon as dbops is silent
    for some time, so a second guard needs a name of its own.
    """
    source, flavor, admin = run.source.party, run.flavor, run.accounts.source
    run.checkpoint["source_opened"], run.checkpoint["source_closed"] = True, False
    state = run.start_job(
        run.source,
        name,
        "guard: end the backup, resume replication and remove the key when the run ends or goes silent",
        load("release", "guard"),
        run.run_id,
        run.source.authorized_keys_file,
        source.ssh_user,
        run.plan.programs["source.client"],
        source.socket,
        flavor.resume_applier(),
        str(run.settings.guard_paused_seconds),
        str(run.settings.guard_idle_seconds),
        secrets={"admin.cnf": local_login(flavor, admin, run.source.jobs.run_directory)},
        lock="guard",
    )
    run.checkpoint["guard_started"] = True
    run.journal.finished(name, 0, "armed; ends automatically with the run")
    return state


def pause_source(run: Run, key: str) -> None:
    """Stop the source's applier, under the guard. Raises as ``Run.act``: without a live guard nothing is paused."""
    admin, statement = run.accounts.source, run.flavor.pause_applier()
    run.act(
        run.source,
        key,
        statement,
        load("release", "pause"),
        run.plan.programs["source.client"],
        run.source.party.socket,
        statement,
        stdin=local_login(run.flavor, admin, run.source.jobs.run_directory).encode(),
    )


def resume_source(run: Run, key: str) -> None:
    """Start the source's applier again, under the same guard. Raises as ``Run.act``."""
    admin, statement = run.accounts.source, run.flavor.resume_applier()
    run.act(
        run.source,
        key,
        statement,
        load("release", "resume"),
        run.plan.programs["source.client"],
        run.source.party.socket,
        statement,
        stdin=local_login(run.flavor, admin, run.source.jobs.run_directory).encode(),
    )


def open_temporary_tables(run: Run) -> int:
    """Return how many temporary tables the source's applier holds: no copy contains them. Raises as ``Database.query``."""
    names = ("Slave_open_temp_tables", "Replica_open_temp_tables")
    with closing(run.source.connect(10.0)) as database:
        rows = database.query("SHOW GLOBAL STATUS WHERE Variable_name IN (%s, %s)", names)
    return max((int(row["Value"]) for row in rows), default=0)


def close_source(run: Run) -> None:
    """End what remains of the backup, resume replication if dbops paused it, remove key and credentials, stop the guard.

    Raises:
        RemoteFailure: replication could not be resumed, or the key not be removed; the guard on the source keeps trying.
        Unreachable: the source does not answer; its guard acts on its own.
    """
    if not run.checkpoint.get("source_opened") or run.checkpoint.get("source_closed"):
        return
    source, admin = run.source.party, run.accounts.source
    run.act(
        run.source,
        f"{run.journal.step}.close-source",
        "end the backup if it runs, resume replication if it was paused, remove the run's key and credentials",
        load("release", "close_source"),
        run.run_id,
        run.source.authorized_keys_file,
        source.ssh_user,
        run.plan.programs["source.client"],
        source.socket,
        run.flavor.resume_applier(),
        stdin=local_login(run.flavor, admin, run.source.jobs.run_directory).encode(),
        timeout_seconds=30,
    )
    run.checkpoint["source_closed"] = True
    run.journal.say(
        phrase("{source} is released: the run's key and credentials are removed.", source=source.name), host=source.host
    )
