"""Facts of the data itself: links, keys and plugins on a host, tablespaces and tables of a real server."""

import hashlib
import subprocess
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dbops.drivers.mysql import MysqlDatabase
from dbops.drivers.probe import ProbeTarget, probe_instance
from dbops.drivers.probe_host import Inspect
from dbops.drivers.ssh import SshShell
from dbops.engine.errors import Unreachable
from dbops.engine.facts.instance import InstanceFacts, from_record, to_record
from dbops.engine.facts.stored_data import FileLink, StoredData, StoredFiles
from dbops.engine.hosts.local_login import Account
from dbops.engine.ports import Database
from tests.drivers.conftest import BACKUP_PASSWORD, Server
from tests.drivers.test_probe import NOW, ask
from tests.fakes import FakeShell

KEYS = {1: "a7addd9adea9978fda19f21e6be987880e68ac92632ca052e5bb42b1a506939a", 2: "00" * 32}
PLAIN = "".join(f"{number};{key}\n" for number, key in KEYS.items())
HASH = hashlib.sha256(PLAIN.encode()).hexdigest()


def files(folder: Path, **options: Any) -> StoredFiles:
    found = ask(FakeShell(runs_here=True), folder, inspect=Inspect.FILES, **options).datadir.stored
    assert found is not None
    return found


def config(folder: Path, *lines: str) -> str:
    path = folder / "my.cnf"
    path.write_text("[mysqld]\n" + "\n".join(lines) + "\n")
    return str(path)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


class TestHost:
    def test_links_of_a_data_directory_are_found(self, data: Path, tmp_path: Path) -> None:
        (tmp_path / "shop disk").mkdir()
        (data / "mysql" / "deep").mkdir(parents=True)
        (data / ".dbops-old-1").mkdir()
        (data / ".dbops-old-1" / "a.isl").touch()
        (data / "mysql" / "a.isl").write_text("/etc/passwd")
        (data / "shop").symlink_to(tmp_path / "shop disk")
        (data / "mysql" / "b.MYD").symlink_to("/nowhere/b.MYD")
        (data / "mysql" / "deep" / "too.isl").touch()
        assert set(files(data).links or ()) == {
            FileLink("i", "mysql/a.isl"),
            FileLink("d", "shop", str(tmp_path / "shop disk")),
            FileLink("N", "mysql/b.MYD", "/nowhere/b.MYD"),
        }

    def test_data_directory_without_links(self, data: Path) -> None:
        assert files(data).links == ()

    def test_cheap_probe_reads_no_files(self, data: Path) -> None:
        assert ask(FakeShell(runs_here=True), data).datadir.stored is None

    @pytest.mark.parametrize("text", [PLAIN, f"# ours\n\n2;{KEYS[2]}\r\n 1 ; {KEYS[1].upper()}"])
    def test_equal_keys_have_an_equal_hash(self, data: Path, tmp_path: Path, text: str) -> None:
        (tmp_path / "keys").write_text(text)
        found = files(data, defaults_file=config(tmp_path, f"loose-file_key_management-filename={tmp_path}/keys"))
        assert found.keys == HASH

    def test_other_keys_have_another_hash(self, data: Path, tmp_path: Path) -> None:
        (tmp_path / "keys").write_text(PLAIN.replace("1;", "3;"))
        found = files(data, defaults_file=config(tmp_path, f"file-key-management-filename={tmp_path}/keys"))
        assert len(found.keys) == 64
        assert found.keys != HASH

    @pytest.mark.parametrize("by_file", [True, False])
    def test_encrypted_key_file_is_read_with_its_passphrase(self, data: Path, tmp_path: Path, by_file: bool) -> None:
        (tmp_path / "plain").write_text(PLAIN)
        (tmp_path / "secret").write_text("pass phrase\n")
        command = ["openssl", "enc", "-aes-256-cbc", "-md", "sha1", "-in", "plain", "-out", "keys", "-pass"]
        subprocess.run([*command, "file:secret"], cwd=tmp_path, check=True, capture_output=True)
        secret = f"FILE:{tmp_path}/secret" if by_file else "pass phrase"
        name, lines = "file_key_management", [f"{tmp_path}/keys", secret]
        option_file = config(tmp_path, f"{name}_filename={lines[0]}", f"{name}_filekey={lines[1]}")
        assert files(data, defaults_file=option_file).keys == HASH
        read = ask(FakeShell(runs_here=True), data, defaults_file=option_file).config
        assert read is not None
        assert "pass phrase" not in str(to_record(read))
        wrong = config(tmp_path, f"{name}_filename={lines[0]}", f"{name}_filekey=other")
        assert files(data, defaults_file=wrong).keys.startswith("sealed:")

    def test_missing_key_file_is_unreadable(self, data: Path, tmp_path: Path) -> None:
        assert files(data, defaults_file=config(tmp_path, "file_key_management_filename=none")).keys == "unreadable"
        assert files(data).keys == ""

    def test_libraries_of_the_plugin_directory_are_listed(self, data: Path, tmp_path: Path) -> None:
        for name in ("auth_a.so", "ha_b.so", "readme"):
            (tmp_path / name).touch()
        assert set(files(data, plugin_dir=str(tmp_path)).libraries or ()) == {"auth_a.so", "ha_b.so"}

    def test_repeated_plugin_options_add_up(self, data: Path, tmp_path: Path) -> None:
        found = ask(
            FakeShell(runs_here=True), data, defaults_file=config(tmp_path, "plugin-load-add=a", "plugin_load_add=b")
        ).config
        assert found is not None
        assert found.options["plugin_load_add"] == "a;b"


@pytest.mark.parametrize("is_fresh", [False, True])
@pytest.mark.parametrize("before", [None, NOW - timedelta(hours=1)])
def test_facts_of_the_data_are_as_old_as_the_last_answer_of_the_server(
    tmp_path: Path, before: datetime | None, is_fresh: bool
) -> None:
    def silent() -> Database:
        raise Unreachable("mysql.unreachable", "Connecting")

    previous = InstanceFacts(NOW - timedelta(seconds=15), stored_at=before)
    found = probe_instance(
        ProbeTarget(str(tmp_path)), FakeShell(runs_here=True), silent, NOW, previous, is_fresh=is_fresh
    )
    assert found.datadir is not None
    assert (found.datadir.measured_at, found.server, found.stored_at) == (NOW, None, before)


@pytest.mark.services
class TestServer:
    @pytest.fixture
    def probe(self, shell: SshShell, server: Server) -> Callable[..., InstanceFacts]:
        target = ProbeTarget(str(server.datadir), str(server.defaults_file), backup=Account("backup", BACKUP_PASSWORD))
        opened: Callable[[], Database] = lambda: MysqlDatabase(server.address)  # noqa: E731
        return lambda *args, **options: probe_instance(target, shell, opened, *args, **options)

    @pytest.fixture
    def shop(self, database: MysqlDatabase) -> Iterator[MysqlDatabase]:
        database.execute("CREATE DATABASE shop")
        yield database
        database.execute("DROP DATABASE shop")

    def stored(self, found: InstanceFacts) -> StoredData:
        assert found.server is not None, found.server_problem
        assert found.server.stored is not None
        return found.server.stored

    def test_tables_outside_are_found_when_read_freshly(
        self, probe: Callable[..., InstanceFacts], shop: MysqlDatabase, tmp_path: Path
    ) -> None:
        tmp_path.chmod(0o777)
        first = probe(NOW)
        assert self.stored(first).outside_files == ()
        assert self.stored(first).settings["innodb_data_file_path"]
        assert self.stored(first).encrypted_spaces == 0
        assert self.stored(first).account_plugins
        shop.execute(f"CREATE TABLE shop.far (a INT PRIMARY KEY) DATA DIRECTORY='{tmp_path}'")
        shop.execute("CREATE TABLE shop.near (a INT PRIMARY KEY)")
        shop.execute("CREATE TABLE shop.quick (a INT PRIMARY KEY) ENGINE=MEMORY")
        cheap = probe(NOW + timedelta(seconds=5), first)
        assert self.stored(cheap).outside_files == ()
        fresh = probe(NOW + timedelta(seconds=6), cheap, is_fresh=True)
        assert self.stored(fresh).outside_files == (f"{tmp_path}/shop/far.ibd",)
        assert fresh.server is not None
        assert fresh.server.foreign_engines == {"MEMORY": 1}
        assert fresh.datadir is not None
        assert fresh.datadir.stored is not None
        assert FileLink("i", "shop/far.isl") in (fresh.datadir.stored.links or ())
        assert fresh.datadir.measured_at == NOW, "sizes are not read again"
        assert [found.stored_at for found in (first, cheap, fresh)] == [NOW, NOW, NOW + timedelta(seconds=6)]
        assert from_record(InstanceFacts, to_record(fresh)) == fresh

    def test_filters_of_a_connection_are_read(
        self, probe: Callable[..., InstanceFacts], database: MysqlDatabase
    ) -> None:
        database.execute("CHANGE MASTER 'erp' TO MASTER_HOST='127.0.0.1', MASTER_USER='x', IGNORE_DOMAIN_IDS=(7)")
        try:
            database.execute("SET GLOBAL erp.replicate_wild_ignore_table = 'staging.%'")
            found = probe(NOW).server
            assert found is not None
            assert {link.channel: link.left_out for link in found.replication} == {
                "erp": {"Replicate_Wild_Ignore_Table": "staging.%", "IGNORE_DOMAIN_IDS": "7"}
            }
        finally:
            database.execute("RESET SLAVE 'erp' ALL")
