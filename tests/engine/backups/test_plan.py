"""The command lines of a backup, by flavor and by what the server is."""

from dataclasses import replace
from typing import Any

import pytest

from dbops.engine.backups.plan import BackupPlan
from dbops.engine.errors import Refused
from dbops.engine.facts.instance import HostFacts, Tool, from_record, to_record
from dbops.engine.facts.storage import StorageFacts
from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.dumps import dump_options, dump_position, dump_programs, missing_for_dump
from dbops.engine.states import BackupMethod, Role
from tests.engine import builders

from . import samples

DUMP = BackupMethod.DUMP


def options(version: str, flavor: str, program: str | None = None, **server: Any) -> list[str]:
    return dump_options(
        flavor_for(version, flavor),
        replace(builders.server(12), flavor=flavor, version=version, **server),
        credentials_file="C",
        program_version=program,
    )


@pytest.mark.parametrize(
    ("version", "flavor", "server", "wanted"),
    [
        ("10.11.19", "mariadb", {}, ["--master-data=2", "--gtid"]),
        ("10.11.19", "mariadb", {"log_bin": False}, []),
        ("8.0.46", "mysql", {"gtid_enabled": True}, ["--set-gtid-purged=ON", "--source-data=2"]),
        ("5.7.44", "mysql", {"gtid_enabled": False}, ["--set-gtid-purged=OFF", "--master-data=2"]),
        ("8.4.3", "mysql", {"gtid_enabled": True, "log_bin": False}, ["--set-gtid-purged=ON"]),
    ],
)
def test_dump_options_use_the_position_words_of_the_flavor(
    version: str, flavor: str, server: dict[str, Any], wanted: list[str]
) -> None:
    found = options(version, flavor, **server)
    assert found[0] == "--defaults-file=C"
    assert found[found.index("--all-databases") + 1 :] == wanted


@pytest.mark.parametrize(
    ("version", "program", "wanted"),
    [
        ("8.0.15", "9.7.4-2", ["--source-data=2"]),
        ("8.0.46", "8.0.19", ["--master-data=2"]),
        ("5.7.22", "5.7.42", ["--master-data=2"]),
        ("5.7.22", "8.0.21", ["--skip-column-statistics", "--master-data=2"]),
        ("5.7.22", "9.7.4-2", ["--skip-column-statistics", "--source-data=2"]),
    ],
)
def test_dump_options_are_those_of_the_program(version: str, program: str, wanted: list[str]) -> None:
    found = options(version, "mysql", program, gtid_enabled=True)
    assert found[found.index("--all-databases") + 1 :] == ["--set-gtid-purged=ON", *wanted]


def host_with(**tools: str) -> HostFacts:
    return builders.host(12, tools={name: Tool(f"/opt/{name}", version) for name, version in tools.items()})


@pytest.mark.parametrize(
    ("version", "flavor", "program"),
    [
        ("5.7.22", "mysql", "10.11.19"),
        ("8.0.15", "mysql", "11.8.9"),
        ("8.0.15", "mysql", "5.7.26"),
        ("10.11.19", "mariadb", "8.0.46"),
        ("10.11.19", "mariadb", "26.7.0"),
    ],
)
def test_dump_that_could_not_be_restored_is_refused(version: str, flavor: str, program: str) -> None:
    server = builders.server(12, flavor=flavor, version=version)
    facts = builders.facts(12, server=server, host=host_with(mysqldump=program))
    with pytest.raises(Refused) as caught:
        samples.plan(DUMP, facts)
    assert caught.value.code == "backup.dump_program"
    assert all(word in caught.value.cause for word in ("/opt/mysqldump", program, version))
    assert samples.plan(facts=facts).method is BackupMethod.PHYSICAL


def test_dump_runs_the_program_whose_version_was_read() -> None:
    host = host_with(**{"mysqldump": "10.11.19", "mariadb-dump": "10.11.20"})
    assert samples.plan(DUMP, builders.facts(12, host=host)).tools == ("/opt/mariadb-dump",)
    server = builders.server(12, flavor="mysql", version="8.0.15")
    made = samples.plan(DUMP, builders.facts(12, server=server, host=host_with(mysqldump="9.7.4-2")))
    assert made.tools == ("/opt/mysqldump",)
    assert "--source-data=2" in made.options


@pytest.mark.parametrize("flavor", [("10.11.19", "mariadb"), ("8.0.46", "mysql"), ("5.7.44", "mysql")])
def test_options_never_stop_an_applier(flavor: tuple[str, str]) -> None:
    words = options(*flavor) + list(samples.plan().options)
    assert not [word for word in words if "dump-slave" in word or "dump-replica" in word or "safe-slave" in word]


EVERY_DUMP = ("EVENT", "SELECT", "SHOW VIEW", "TRIGGER")


@pytest.mark.parametrize(
    ("version", "flavor", "privileges", "log_bin", "lacks"),
    [
        ("10.11.19", "mariadb", EVERY_DUMP, True, []),
        ("10.11.19", "mariadb", ("SELECT", "SHOW VIEW", "SUPER", "RELOAD"), True, ["TRIGGER", "EVENT"]),
        ("9.7.4", "mysql", EVERY_DUMP, True, ["PROCESS", "RELOAD", "REPLICATION CLIENT"]),
        ("9.7.4", "mysql", EVERY_DUMP, False, ["PROCESS"]),
        ("9.7.4", "mysql", (*EVERY_DUMP, "PROCESS", "FLUSH_TABLES", "SUPER"), True, []),
        ("5.7.29", "mysql", ("SELECT", "PROCESS", "RELOAD", "SUPER"), True, ["SHOW VIEW", "TRIGGER", "EVENT"]),
        ("8.0.46", "mysql", ("ALL PRIVILEGES",), True, []),
        ("8.0.46", "mysql", (), False, ["SELECT", "SHOW VIEW", "TRIGGER", "EVENT", "PROCESS"]),
    ],
)
def test_missing_for_dump_names_what_the_program_needs(
    version: str, flavor: str, privileges: tuple[str, ...], log_bin: bool, lacks: list[str]
) -> None:
    server = replace(builders.server(12), flavor=flavor, version=version, log_bin=log_bin)
    assert missing_for_dump(flavor_for(version, flavor), server, privileges) == lacks


def test_plan_backup_refuses_an_account_that_would_leave_objects_out() -> None:
    poor = builders.facts(12, local_privileges=("EVENT", "SELECT", "SHOW VIEW"))
    with pytest.raises(Refused) as error:
        samples.plan(DUMP, poor)
    assert error.value.code == "backup.dump_account"
    assert "TRIGGER" in error.value.cause
    assert samples.plan(BackupMethod.PHYSICAL, poor)
    assert samples.plan(DUMP, builders.facts(12, local_privileges=EVERY_DUMP))
    assert samples.plan(DUMP, builders.facts(12, local_privileges=None))


def test_programs_by_flavor() -> None:
    assert dump_programs(flavor_for("10.11.19", "mariadb")) == ("mariadb-dump", "mysqldump")
    assert dump_programs(flavor_for("8.0.46", "mysql")) == ("mysqldump",)


def test_positions_in_dumps_of_both_flavors() -> None:
    mysql = "SET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ 'uuid-a:1-5,\nuuid-b:1-3';\n-- CHANGE REPLICATION SOURCE TO"
    mysql += " SOURCE_LOG_FILE='binlog.000002', SOURCE_LOG_POS=157;\n"
    found = dump_position(mysql)
    assert (found.gtid, found.log_file, found.log_pos) == ("uuid-a:1-5,uuid-b:1-3", "binlog.000002", 157)
    assert dump_position("").gtid == ""


def test_file_name_is_unique_and_hidden_until_published() -> None:
    plan = samples.plan()
    assert plan.path == "/backups/backup-1-physical-20260329T013000Z-0123456789abcdef.xbstream.zst"
    assert plan.partial_path == "/backups/.backup-1-physical-20260329T013000Z-0123456789abcdef.xbstream.zst.partial"
    assert samples.plan(DUMP).file.endswith(".sql.gz")


def test_needed_bytes_follow_the_last_run_or_the_data() -> None:
    data = builders.facts(12).datadir
    assert data is not None
    assert samples.plan().needed_bytes > (data.data_bytes or 0)
    assert samples.plan(last_bytes=100 * 1024**2).needed_bytes == 184 * 1024**2


def test_backup_of_a_filtered_server_names_what_it_lacks() -> None:
    filtered = builders.link(filters={"replicate_do_db": "shop"})
    facts = builders.facts(
        12, server=builders.server(12, replication=(filtered,), foreign_engines={"MEMORY": 2, "TokuDB": 1})
    )
    assert samples.plan().gaps == ()
    assert [len(samples.plan(method, facts).gaps) for method in (BackupMethod.PHYSICAL, DUMP)] == [3, 1]


def test_backup_plan_survives_json() -> None:
    plan = samples.plan()
    assert from_record(BackupPlan, to_record(plan)) == plan


def test_backup_command_reads_its_secret_from_an_option_file() -> None:
    assert f"--defaults-file={samples.RUN_DIRECTORY}/jobs/backup/backup.cnf" in samples.plan().command


def test_backup_plan_is_refused_with_advice() -> None:
    for values, facts, code in (
        ({"directory": ""}, None, "backup.no_directory"),
        ({}, replace(builders.facts(12), server=None), "backup.no_server"),
    ):
        with pytest.raises(Refused) as caught:
            samples.plan(facts=facts, **values)
        assert (caught.value.code, bool(caught.value.next_step)) == (code, True)


@pytest.mark.parametrize(
    ("role", "turns", "threads"),
    [
        (Role.BACKUP, False, 2),
        (Role.BACKUP, None, 2),
        (Role.BACKUP, True, 1),
        (Role.REPLICA, False, 1),
        (Role.PRIMARY, False, 1),
    ],
)
def test_backup_plan_uses_two_threads_only_on_a_backup_instance_with_flash(
    role: Role, turns: bool | None, threads: int
) -> None:
    disk = builders.datadir(12, storage=StorageFacts("xfs", 4096, "sda", None, turns=turns))
    made = samples.plan(facts=builders.facts(12, datadir=disk), role=role)
    assert [word for word in made.options if word.startswith("--parallel")] == [f"--parallel={threads}"]
