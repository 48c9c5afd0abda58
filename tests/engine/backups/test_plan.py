"""The command lines of a backup, by flavor and by what the server is."""

from dataclasses import replace
from typing import Any

import pytest

from dbops.engine.backups.plan import BackupPlan
from dbops.engine.errors import Refused
from dbops.engine.facts.instance import StorageFacts, from_record, to_record
from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.dumps import dump_options, dump_position, dump_programs
from dbops.engine.states import BackupMethod, Role
from tests.engine import builders

from . import samples

DUMP = BackupMethod.DUMP


def options(version: str, flavor: str, **server: Any) -> list[str]:
    return dump_options(
        flavor_for(version, flavor),
        replace(builders.server(12), flavor=flavor, version=version, **server),
        credentials_file="C",
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


@pytest.mark.parametrize("flavor", [("10.11.19", "mariadb"), ("8.0.46", "mysql"), ("5.7.44", "mysql")])
def test_options_never_stop_an_applier(flavor: tuple[str, str]) -> None:
    words = options(*flavor) + list(samples.plan().options)
    assert not [word for word in words if "dump-slave" in word or "dump-replica" in word or "safe-slave" in word]


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
