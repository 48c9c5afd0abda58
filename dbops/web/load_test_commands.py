"""The exact commands of a load test. Paths that are known only at the start are named in capitals."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from django.utils.translation import gettext as _

from dbops.engine.errors import Refused
from dbops.engine.load_tests.generator import LOAD_SCHEMA, Place, prepare_arguments, run_arguments
from dbops.engine.load_tests.plan import LoadTestPlan
from dbops.engine.load_tests.tidb_target import TidbTarget
from dbops.engine.load_tests.workload import OF_SYSBENCH, Workload
from dbops.web.refusal_texts import cause_of

#: Names for the directories of the job and of the scratch server.
RUN_DIRECTORY, SCRATCH = "RUN_DIRECTORY", "SCRATCH_DIRECTORY"
PROGRAMS = {"mariadb": "mariadbd", "mysql": "mysqld"}


@dataclass(frozen=True, slots=True)
class ShownCommand:
    """One command with what it does."""

    title: str
    text: str


def commands_of(plan: LoadTestPlan, workload: Workload) -> list[ShownCommand]:
    """Return the server's command, and the load generator's for one round of each step."""
    if plan.tidb:
        return [*_in_cluster(plan.tidb), *_generator(plan, workload)]
    program = PROGRAMS.get(plan.flavor, "mysqld")
    own = (f"--datadir={SCRATCH}/data", f"--socket={SCRATCH}/run/s")
    server = shlex.join((program, "--no-defaults", *own, *plan.server))
    tunnel = shlex.join(("ssh", "-i", f"{RUN_DIRECTORY}/key", "--", plan.generator_host, "round-1"))
    connection = (
        [ShownCommand(_("Connection from %(host)s, for each round") % {"host": plan.host}, tunnel)]
        if plan.is_tunnelled
        else []
    )
    return [ShownCommand(_("Start of the scratch server"), server), *connection, *_generator(plan, workload)]


def _in_cluster(target: TidbTarget) -> Iterator[ShownCommand]:
    """The statements that the dashboard runs on the node as the load's account, besides the load."""
    made = f"CREATE DATABASE {LOAD_SCHEMA};\nUSE {LOAD_SCHEMA};\n{target.table.strip().rstrip(';')};"
    yield ShownCommand(_("Claim of the cluster and the table, as %(user)s") % {"user": target.user}, made)
    yield ShownCommand(_("At the end, as %(user)s") % {"user": target.user}, f"DROP DATABASE {LOAD_SCHEMA};")


def _generator(plan: LoadTestPlan, workload: Workload) -> Iterator[ShownCommand]:
    target = plan.tidb
    place = (
        Place(RUN_DIRECTORY, "", target.user, target.address, target.port)
        if target
        else Place(RUN_DIRECTORY, f"{SCRATCH}/run/s")
    )
    if workload.profile in OF_SYSBENCH:
        yield ShownCommand(_("Fill of the tables"), shlex.join(prepare_arguments(workload, place)))
    shown = set()
    for one in plan.rounds:
        if (one.step, one.arm) in shown or one.arm.startswith("a") and one.arm != "a":
            continue
        shown.add((one.step, one.arm))
        options = "".join(f" --{name.replace('_', '-')}={value}" for name, value in one.options)
        values = {"number": one.number, "options": options}
        title = (_("Round %(number)s, server with%(options)s") if options else _("Round %(number)s")) % values
        try:
            yield ShownCommand(title, shlex.join(run_arguments(workload, one, place)))
        except Refused as error:
            yield ShownCommand(title, cause_of(error))
