"""The files of a load test's job on its host: settings, rounds, and those of the generator."""

from collections.abc import Sequence

from dbops.engine.flavors import Flavor
from dbops.engine.flavors.dump_load import install_programs
from dbops.engine.flavors.waits import COUNTERS
from dbops.engine.hosts.scripts import load_lua, load_python
from dbops.engine.load_tests.digests import sample_sql
from dbops.engine.load_tests.generator import (
    COPY_NAME,
    INPUT,
    LOAD_SCHEMA,
    SCRIPT,
    Place,
    input_text,
    prepare_arguments,
    run_arguments,
    tables_text,
)
from dbops.engine.load_tests.plan import CRASHING, LIMIT_FACTOR, LoadTestPlan
from dbops.engine.load_tests.rounds import Round
from dbops.engine.load_tests.workload import OF_SYSBENCH, Profile, Workload
from dbops.engine.restore_tests.plan import RestoreTestPlan

#: Status counters of a round: those of the waits, and the pages that were written.
ROUND_COUNTERS = (
    *COUNTERS,
    *(
        "Innodb_dblwr_writes",
        "Innodb_dblwr_pages_written",
        "Innodb_pages_written",
        "Innodb_data_written",
        "Binlog_commits",
    ),
)
#: Between the fields of a round: a control character, which no option and no argument has.
SEPARATOR = "\x1f"
#: Cores for the two ends of the connection on the scratch server's host, if the generator is on another one.
TUNNEL_CORES = 2
RELAY = "load_relay"


def job_files(
    plan: LoadTestPlan, workload: Workload, copy: RestoreTestPlan, flavor: Flavor, tunnel: Sequence[str] = ()
) -> dict[str, str]:
    """Return the files of the job by name.

    Args:
        plan: that was confirmed.
        workload: the load.
        copy: the scratch directories.
        flavor: of the scratch server.
        tunnel: words of ssh to the generator's host, if that is another one.

    Raises:
        Refused: statements or table cannot be used, or a round is too large (``load_test.statement``, ``load_test.table``,
            ``load_test.limits``).
    """
    place = Place(f"{copy.sockets}/load", f"{copy.sockets}/run/s")
    is_prepared = workload.profile in OF_SYSBENCH
    return {
        "settings": _settings(plan, workload, flavor),
        "rounds": "".join(f"{line}\n" for line in _rounds(plan.rounds, workload, place)),
        "fill": SEPARATOR.join(prepare_arguments(workload, place)) if is_prepared else "",
        "table.sql": _tables(plan, workload),
        **_samples(workload, flavor),
        **(
            {"tunnel.words": SEPARATOR.join(tunnel), f"{RELAY}.py": load_python(RELAY)}
            if tunnel
            else _of_generator(workload)
        ),
    }


def tidb_job_files(plan: LoadTestPlan, workload: Workload, copy: RestoreTestPlan, password: str) -> dict[str, str]:
    """Return the files of the job that only runs the load generator, by name. ``password``: of the load's account.

    Raises:
        Refused: as ``job_files``.
    """
    target = plan.tidb
    assert target is not None  # noqa: S101 - of such a plan
    place = Place(f"{copy.sockets}/load", "", target.user, target.address, target.port)
    settings = {
        "generator_memory": plan.generator_limit_bytes,
        "generator_cores": plan.generator_cores,
        "floor": plan.floor_bytes,
        "floor_percent": plan.floor_percent,
        "most_seconds": plan.most_seconds,
    }
    return {
        "settings": "".join(f"{name}={value}\n" for name, value in settings.items()),
        "rounds": "".join(f"{line}\n" for line in _rounds(plan.rounds, workload, place)),
        SCRIPT: load_lua("load"),
        INPUT: input_text(workload, password),
    }


def generator_files(plan: LoadTestPlan, workload: Workload, load_test: str) -> dict[str, str]:
    """Return the files on the other host that runs the load generator, by name, for ``serve_load.sh``.

    Raises:
        Refused: as ``job_files``.
    """
    sockets = f"/tmp/dbops-load-generator-{load_test}"  # noqa: S108 - as sockets_of in scratch.sh
    place = Place(f"{sockets}/load", f"{sockets}/run/s")
    commands = [(f"round-{one.number}", *run_arguments(workload, one, place)) for one in plan.rounds]
    if workload.profile in OF_SYSBENCH:
        commands.append(("fill", *prepare_arguments(workload, place)))
    return {
        "load.commands": "".join(f"{SEPARATOR.join(words)}\n" for words in commands),
        f"{RELAY}.py": load_python(RELAY),
        **_of_generator(workload),
    }


def _of_generator(workload: Workload) -> dict[str, str]:
    return {SCRIPT: load_lua("load"), **({INPUT: text} if (text := input_text(workload)) else {})}


def _tables(plan: LoadTestPlan, workload: Workload) -> str:
    """Return the statements that make the tables of inserts, or of the schema that is copied if the server is empty."""
    is_made = workload.profile is Profile.INSERT or (workload.profile is Profile.ROTATING and not plan.run)
    if not is_made:
        return ""
    schema = LOAD_SCHEMA if workload.profile is Profile.INSERT else workload.schema
    name = f"`{schema.replace('`', '``')}`"
    return f"CREATE DATABASE IF NOT EXISTS {name};\nUSE {name};\n{tables_text(workload)}\n;\n"


def _samples(workload: Workload, flavor: Flavor) -> dict[str, str]:
    """Return what samples the values of the source’s digests: of a copy, or of the schema itself if copies are empty."""
    if not workload.digests:
        return {}
    schema = COPY_NAME.format(1) if workload.row_share > 0 else workload.schema
    return {"sample.sql": sample_sql(workload.digests, flavor.name, of_copy=schema)}


def _settings(plan: LoadTestPlan, workload: Workload, flavor: Flavor) -> str:
    lines = [
        f"server_memory={int(plan.server_memory_bytes * LIMIT_FACTOR)}",
        f"generator_memory={plan.generator_limit_bytes}",
        f"server_cores={plan.server_cores}",
        f"generator_cores={TUNNEL_CORES if plan.is_tunnelled else plan.generator_cores}",
        f"floor={plan.floor_bytes}",
        f"floor_percent={plan.floor_percent}",
        f"most_seconds={plan.most_seconds}",
        f"planned={plan.version}",
        *(f"crashing={'.'.join(map(str, one))}" for one in CRASHING if flavor.name == "mysql"),
        f"schema={workload.schema.encode().hex()}",
        f"share={workload.row_share:.6f}",
        *(f"installer={name}" for name in install_programs(flavor)),
        *(f"initialise={word}" for word in plan.initialise),
        *(f"counter={name}" for name in ROUND_COUNTERS),
    ]
    return "".join(f"{line}\n" for line in lines)


def _rounds(rounds: tuple[Round, ...], workload: Workload, place: Place) -> list[str]:
    lines, before = [], None
    for one in rounds:
        is_new = bool(one.arm) or one.options != (before.options if before else ())
        options = [f"--{name.replace('_', '-')}={value}" for name, value in one.options]
        words = [
            str(one.number),
            str(one.seconds + one.warm_up_seconds),
            str(one.schemas),
            str(int(is_new)),
            str(len(options)),
        ]
        lines.append(SEPARATOR.join((*words, *options, *run_arguments(workload, one, place))))
        before = one
    return lines
