"""Run a MySQL clone: open access to the donor, clone on the target, and remove everything from the donor again."""

from contextlib import closing, suppress
from dataclasses import asdict, replace

from dbops.engine.errors import DbopsError, RemoteFailure, Unreachable
from dbops.engine.flavors import Flavor, flavor_for
from dbops.engine.flavors.base import Coordinates
from dbops.engine.flavors.dump_load import clone_server_options, initialise_command, load_server_options
from dbops.engine.flavors.optionfile import option_words
from dbops.engine.hosts import stall
from dbops.engine.hosts.jobs import pairs
from dbops.engine.hosts.local_login import Account, local_login
from dbops.engine.hosts.progress import add_sample, rate_of
from dbops.engine.hosts.scripts import load
from dbops.engine.hosts.ssh import show
from dbops.engine.phrases import phrase
from dbops.engine.ports import Database, JobState, JobStatus
from dbops.engine.rebuilds.clone import (
    ACCOUNT_DAYS,
    LIBRARY,
    PLUGIN,
    CloneEvidence,
    account_name,
    account_sql,
    clone_statements,
    judge_clone,
    progress_of,
    read_stages,
)
from dbops.engine.rebuilds.metrics import figures_of
from dbops.engine.rebuilds.plan import Plan, PlannedCommand
from dbops.engine.rebuilds.steps.base import JobStep, Step
from dbops.engine.rebuilds.steps.copy.archive import must_have_begun
from dbops.engine.rebuilds.steps.preflight.live_check import check_account
from dbops.engine.rebuilds.steps.preflight.source_replication import remember_replication
from dbops.engine.rebuilds.steps.replicate.replication import MASKED
from dbops.engine.rebuilds.steps.run import Run, StepOutcome, done

OPERATION = phrase("Opening the source for the clone")


class OpenDonor(Step):
    """Create the plugin and this run's account on the source, and test both from the target before anything is destroyed."""

    name = "open-access"
    title = phrase("Open the source for the clone")
    is_destructive = False

    def commands(self, plan: Plan) -> tuple[PlannedCommand, ...]:
        source, account = plan.source, account_sql("RUN")
        return (
            PlannedCommand(source.name, f"{_install()}   -- if not loaded; removed at the end"),
            *(PlannedCommand(source.name, sql) for sql in _account_statements(account, tls=True)),
            PlannedCommand(
                plan.target.name,
                f"{plan.programs['target.client']} --host={source.address} --port={source.port} --user={account_name('RUN')} -e 'SELECT 1'",
            ),
        )

    def advance(self, run: Run) -> StepOutcome:
        check_account(run)
        remember_replication(run)
        with closing(run.source.connect(10.0)) as database:
            try:
                self._open(run, database)
                password = new_password(run, database, "open.password")
            except Unreachable:
                raise
            except RemoteFailure as error:
                raise RemoteFailure(
                    "clone.account",
                    OPERATION,
                    cause=error.cause,
                ) from error
        self._try_from_target(run, password)
        return done()

    def _open(self, run: Run, database: Database) -> None:
        checkpoint = run.checkpoint
        if "donor_opened" not in checkpoint:
            self._nothing_is_logged(run, database)
            tls = database.query("SHOW GLOBAL VARIABLES LIKE 'ssl_cert'")
            checkpoint["donor_tls"] = bool(tls and tls[0]["Value"])
            checkpoint["donor_plugin_is_ours"] = not plugin_state(database)
            # Stored with the row of the first command, before it runs: a later driver then knows what to remove.
            checkpoint |= {"donor_opened": True, "donor_closed": False}
        if checkpoint["donor_plugin_is_ours"] and not plugin_state(database):
            run.execute(run.source, database, "open.plugin", _install())
        statements = _account_statements(account_sql(run.run_id), tls=checkpoint["donor_tls"])
        for number, statement in enumerate(statements):
            run.execute(run.source, database, f"open.account.{number}", statement)

    def _nothing_is_logged(self, run: Run, database: Database) -> None:
        """Refuse if binary logging stays on: on a replica the account would be an errant transaction, and reach every copy."""
        if int(database.query("SELECT @@SESSION.sql_log_bin AS logs")[0]["logs"]):
            raise RemoteFailure(
                "clone.account",
                OPERATION,
                cause=phrase("the admin account can't disable binary logging for its session"),
            )

    def _try_from_target(self, run: Run, password: str) -> None:
        source = run.plan.source
        credentials = local_login(
            run.flavor, Account(account_name(run.run_id), password), run.target.jobs.run_directory
        )
        try:
            run.act(
                run.target,
                "open.try",
                f"log in to {source.address}:{source.port} as {account_name(run.run_id)}",
                load("exchangeable", "login_plugins", "check_donor_login"),
                run.plan.programs["target.client"],
                source.address,
                str(source.port),
                stdin=credentials.encode(),
            )
        except Unreachable:
            raise
        except RemoteFailure as error:
            raise RemoteFailure(
                "clone.no_way",
                phrase("Trying the connection from the target to the source's server"),
                cause=error.cause,
                next_step=phrase(
                    "Allow {host} to reach {address}:{port}.",
                    host=run.target.party.host,
                    address=source.address,
                    port=source.port,
                ),
            ) from error
        run.journal.say(
            phrase("{host} reaches the server of {source}.", host=run.target.party.host, source=source.name),
            host=run.target.party.host,
        )


class Clone(JobStep):
    """Make an empty data directory, start a server on it without network access, and let it clone the source."""

    name = "stream"
    title = phrase("Clone the source into a new data directory")

    def commands(self, plan: Plan) -> tuple[PlannedCommand, ...]:
        flavor, target = flavor_for(plan.source.version, plan.flavor), plan.target.name
        serve = f"{show(_server(plan, flavor))} --datadir={plan.target.datadir} --socket=SCRATCH/s"
        statements = clone_statements(
            run_id="RUN", password=MASKED, host=plan.source.address, port=plan.source.port, tls=True
        )
        return (
            PlannedCommand(target, show(_initialise(plan, flavor))),
            PlannedCommand(target, f"{serve}   # not reachable"),
            *(PlannedCommand(target, line.rstrip(";")) for line in statements.splitlines()),
            PlannedCommand(target, f"{serve}   # again, to complete the clone"),
            PlannedCommand(target, _tidy(flavor, "RUN", plugin=True)),
        )

    def start(self, run: Run) -> JobState:
        """Start the job. A job that an earlier driver started logs in with its password while it runs, so that is not changed."""
        state = run.target.jobs.follow(self.name)
        if state.status is not JobStatus.ABSENT:
            return state
        plan, source, admin = run.plan, run.plan.source, run.accounts.target
        with closing(run.source.connect(10.0)) as database:
            password = new_password(run, database, "stream.password")
        statements = clone_statements(
            run_id=run.run_id, password=password, host=source.address, port=source.port, tls=run.checkpoint["donor_tls"]
        )
        run.checkpoint.pop("left_tree", None)  # the directory content after the swap is about to change
        initialise, server, first = (
            _initialise(plan, run.flavor),
            _server(plan, run.flavor),
            ["--max-allowed-packet=64M"],
        )
        return run.start_job(
            run.target,
            self.name,
            "\n".join(command.text for command in self.commands(plan)),
            load("common", "inside", "clone"),
            plan.target.datadir,
            run.checkpoint["new_identity"],
            run.copy_run,
            plan.target.os_user,
            plan.programs["target.client"],
            _tidy(run.flavor, run.run_id, plugin=run.checkpoint["donor_plugin_is_ours"]),
            *(str(len(words)) for words in (initialise, server, first)),
            *initialise,
            *server,
            *first,
            secrets={
                "clone.sql": statements,
                "admin.cnf": local_login(run.flavor, admin, run.target.jobs.run_directory),
            },
        )

    def stall_seconds(self, run: Run) -> float:
        """Return how long the job may be silent. Synchronising disks and recovery are silent.

        Any other silence means that the clone has lost its donor: it retries the connection for minutes without a message (measured with a
        killed donor).
        """
        is_silent = run.checkpoint.get("stream.stage") in ("file sync", "restart")
        return run.settings.stall_prepare_seconds if is_silent else run.settings.stall_stream_seconds

    def signs(self, run: Run, state: JobState) -> str:
        """Return the server's own counters, until it is restarted: its background work writes all the time."""
        counters = state.counters if state.tails.get("phase") else {}
        return stall.signs_of(counters, state.tails)

    def follow(self, run: Run, state: JobState) -> None:
        checkpoint, now = run.checkpoint, run.clock.now()
        progress = progress_of(
            read_stages(state.tails.get("progress", "")), before_percent=checkpoint.get("stream.percent", 0.0)
        )
        if state.tails.get("phase"):
            checkpoint["stream.stage"] = "restart"
            run.journal.progress(
                note=phrase("starting the server to complete the copy"), percent=checkpoint.get("stream.percent")
            )
            return
        if progress is None:
            run.journal.progress(note=phrase("creating an empty data directory"))
            return
        samples = checkpoint["stream.samples"] = add_sample(
            checkpoint.get("stream.samples", []), at=now, count=progress.copied_bytes
        )
        checkpoint["stream.percent"], checkpoint["stream.stage"] = progress.percent, progress.stage
        checkpoint["stream.bytes"] = progress.copied_bytes
        run.journal.measured(replace(figures_of(state.counters, "server"), bytes=progress.copied_bytes))
        run.journal.progress(
            bytes=progress.copied_bytes,
            total_bytes=progress.total_bytes,
            percent=progress.percent,
            rate_bytes_per_second=rate_of(samples),
            note=progress.stage or phrase("between two stages"),
        )

    def finish(self, run: Run, state: JobState) -> StepOutcome:
        must_have_begun(run, state, phrase("Cloning the source into the new data directory"))
        output = state.tails.get("out", "").strip().splitlines()
        gtid = judge_clone(
            CloneEvidence(
                statuses=state.stages,
                outcome=pairs(state.tails.get("outcome", "")),
                said=state.tails.get("clone", ""),
                last=output[-1].removeprefix("FAILED: ") if output else "",
                server_log=state.tails.get("server", ""),
            )
        )
        copied = sum(stage.copied_bytes for stage in read_stages(state.tails.get("progress", "")))
        seconds = (state.ended_at or 0) - (state.started_at or 0)
        run.checkpoint |= {
            "stream.bytes": copied,
            "position": asdict(Coordinates(gtid=gtid)),
            # Nothing is left to prepare, and the server itself made the files: a resume of this copy begins with the start.
            "loaded": True,
            "done_before": ["set-ownership", "prepare"],
        }
        run.journal.progress(bytes=copied, total_bytes=copied, percent=100.0)
        run.journal.say(phrase("The clone is complete, at {gtid}.", gtid=gtid), host=run.target.party.host)
        with suppress(DbopsError):  # the clean-up does the rest
            close_donor(run)
        return done(exit_statuses=state.stages, tails=state.tails, bytes=copied, seconds=seconds)


def plugin_state(database: Database) -> str:
    """Return the clone plugin's state, ``""`` where it is not loaded. Raises as ``Database.query``."""
    rows = database.query(
        "SELECT PLUGIN_STATUS AS status FROM information_schema.PLUGINS WHERE PLUGIN_NAME = %s", (PLUGIN,)
    )
    return str(rows[0]["status"]) if rows else ""


def new_password(run: Run, database: Database, key: str) -> str:
    """Give the run's account on the source a password that the server generates, and return it. It is stored nowhere.

    Raises as ``Database.query``.
    """
    sql = f"ALTER USER {account_sql(run.run_id)} IDENTIFIED BY RANDOM PASSWORD"
    run.journal.check()
    run.journal.command(key, run.source.party.name, sql)
    [row] = database.query(sql)
    run.journal.finished(key, 0)
    return str(row["generated password"])


def close_donor(run: Run) -> bool:
    """Drop the run's account on the source, and the plugin if this run installed it. Return whether this is done, or has to be retried.

    Raises as ``Database.query``.
    """
    if not run.checkpoint.get("donor_opened") or run.checkpoint.get("donor_closed"):
        return True
    source, step = run.source, run.journal.step
    with closing(source.connect(10.0)) as database:
        run.execute(source, database, f"{step}.donor.account", f"DROP USER IF EXISTS {account_sql(run.run_id)}")
        sessions = database.query(
            "SELECT ID AS id FROM information_schema.PROCESSLIST WHERE USER = %s", (account_name(run.run_id),)
        )
        for row in sessions:  # sessions of a dropped account continue
            with suppress(RemoteFailure):  # a session that has just ended
                run.execute(source, database, f"{step}.donor.kill.{row['id']}", f"KILL {int(row['id'])}")
        if sessions:
            return False
        if run.checkpoint.get("donor_plugin_is_ours") and plugin_state(database):
            run.execute(source, database, f"{step}.donor.plugin", f"UNINSTALL PLUGIN {PLUGIN}")
            if plugin_state(database):  # another clone uses it: it is removed when that ends
                return False
    run.checkpoint["donor_closed"] = True
    run.journal.say(
        phrase("{source} is restored: the account of this run is dropped.", source=source.party.name),
        host=source.party.host,
    )
    return True


def closing_statements() -> tuple[str, ...]:
    """Return what is removed from the source again, for the plan page."""
    return (
        f"DROP USER IF EXISTS {account_sql('RUN')}",
        f"UNINSTALL PLUGIN {PLUGIN}   -- if this rebuild installed it",
    )


def _install() -> str:
    return f"INSTALL PLUGIN {PLUGIN} SONAME '{LIBRARY}'"


def _account_statements(account: str, *, tls: bool) -> tuple[str, ...]:
    ssl = "REQUIRE SSL " if tls else ""
    return (
        f"CREATE USER IF NOT EXISTS {account} IDENTIFIED BY RANDOM PASSWORD {ssl}PASSWORD EXPIRE INTERVAL {ACCOUNT_DAYS} DAY",
        f"GRANT BACKUP_ADMIN ON *.* TO {account}",
    )


def _tidy(flavor: Flavor, run_id: str, *, plugin: bool) -> str:
    """Return the statements that remove the donor's parts from the copy: this run's account, replication settings, our plugin."""
    statements = [f"DROP USER IF EXISTS {account_sql(run_id)}", *flavor.forget_replication()]
    return "; ".join([*statements, f"UNINSTALL PLUGIN {PLUGIN}"] if plugin else statements)


def _initialise(plan: Plan, flavor: Flavor) -> list[str]:
    program = plan.programs["target.install"]
    target = plan.target
    return initialise_command(
        flavor,
        program,
        defaults_file=target.defaults_file,
        datadir=target.datadir,
        group_suffix=target.group_suffix,
    )


def _server(plan: Plan, flavor: Flavor) -> list[str]:
    options = load_server_options(flavor, memory_bytes=plan.prepare_memory_bytes)
    return [
        plan.programs["target.server"],
        *option_words(plan.target.defaults_file, plan.target.group_suffix),
        *options,
        *clone_server_options(),
    ]
