"""What command lines and statements of backup tools tell."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbops.engine.backups.tools import (
    InstancePlace,
    SocketEnd,
    makes_a_backup,
    masked_command,
    tool_of_statement,
    which_instance,
)
from dbops.engine.facts.backups import Reads

SOCKET = "/run/mysqld/mysqld.sock"
PLACE = InstancePlace(
    datadir="/var/lib/mysql",
    sockets=frozenset({SOCKET}),
    addresses=frozenset({"localhost", "127.0.0.1", "10.0.0.12", "db-12"}),
    port=3306,
    defaults_file="/etc/mysql/my.cnf",
)
ALONE = InstancePlace(
    **{name: getattr(PLACE, name) for name in PLACE.__slots__ if name != "is_only_server"}, is_only_server=True
)
THIS, OTHER, UNCLEAR = Reads.THIS, Reads.OTHER, Reads.UNCLEAR
CASES = [
    ("mysqldump --all-databases", [], UNCLEAR),
    (f"mysqldump --socket={SOCKET} shop", [], THIS),
    (f"mysqldump --socket {SOCKET} shop", [], THIS),
    ("mysqldump -S/var/run/mysqld/mysqld.sock shop", [], THIS),
    ("mysqldump -S /run/mysqld/other.sock shop", [], OTHER),
    ("mysqldump -h 10.0.0.12 shop", [], THIS),
    ("mysqldump -h10.0.0.12 -P3307 shop", [], OTHER),
    ("mysqldump --host=db-12 --port=3306 shop", [], THIS),
    ("mysqldump --host=10.0.0.99 shop", [], OTHER),
    ("mysqldump --host=localhost -P 3307 shop", [], UNCLEAR),  # by a socket: the number is not used
    ("mysqldump --defaults-file=/etc/mysql/my.cnf shop", [], THIS),
    ("mysqldump --defaults-file=/root/backup.cnf shop", [], UNCLEAR),
    ("mariadb-backup --backup --datadir=/var/lib/mysql/ --target-dir=/b", [], THIS),
    ("xtrabackup --backup -h /srv/other --target-dir=/b", [], OTHER),
    ("mysqldump shop", [SocketEnd(path=SOCKET)], THIS),
    ("mysqldump shop", [SocketEnd(path="/run/other.sock")], OTHER),
    (f"mysqldump -S {SOCKET} shop", [SocketEnd(path="/run/other.sock")], OTHER),  # what it has open counts most
    ("mydumper -h db-12", [SocketEnd(address="10.0.0.12", port=3306)], THIS),
    ("mydumper -h db-12", [SocketEnd(address="10.0.0.12", port=3307)], OTHER),
]


@pytest.mark.parametrize(("command", "endpoints", "reads"), CASES)
def test_which_instance_reads_the_command_line(command: str, endpoints: list[SocketEnd], reads: Reads) -> None:
    words = shlex.split(command)
    assert which_instance(words[0], words, endpoints, PLACE)[0] == reads


def test_which_instance_uses_the_only_server_of_the_host() -> None:
    assert which_instance("mysqldump", ["mysqldump", "shop"], [], ALONE)[0] == THIS
    assert which_instance("mysqldump", ["mysqldump", "-h", "10.0.0.99"], [], ALONE)[0] == OTHER


@pytest.mark.parametrize(
    ("command", "is_one"),
    [
        ("mysqldump --all-databases", True),
        ("mysqldump --version", False),
        ("mariadb-backup --backup --target-dir=/b", True),
        ("mariadb-backup --prepare --target-dir=/b", False),
        ("xtrabackup --copy-back --target-dir=/b", False),
        ("innobackupex /b", True),
        ("innobackupex --apply-log /b", False),
    ],
)
def test_makes_a_backup_recognizes_tools(command: str, is_one: bool) -> None:
    words = command.split()
    assert makes_a_backup(words[0], words) is is_one


SECRET = "s3cr3t-value"


@pytest.mark.parametrize(
    "command",
    [
        f"mysqldump -u root -p{SECRET} shop",
        f"mysqldump --password={SECRET} shop",
        f"mysqldump --PASSWORD={SECRET}",
        f"mydumper --password {SECRET} -o /b",
        f"mydumper -p {SECRET} -o /b",
        f"xtrabackup --backup --encrypt-key={SECRET}",
        f"mysqldump --ssl-passphrase-password={SECRET}",
        f"mysqlsh mysql://root:{SECRET}@db/shop",
    ],
)
def test_secrets_are_masked(command: str) -> None:
    shown = masked_command(command.split())
    assert SECRET not in shown
    assert command.split()[0] in shown


@given(st.lists(st.text(min_size=1), max_size=6))
def test_any_words_can_be_shown(words: list[str]) -> None:
    assert len(masked_command(words)) <= 1000


@pytest.mark.parametrize(
    ("statement", "tool"),
    [
        ("SELECT /*!40001 SQL_NO_CACHE */ * FROM `t`", "mysqldump"),
        ("SELECT /*!40001 SQL_NO_CACHE */ `id`, `v` FROM `my1`", "mysqldump"),
        ("SELECT /*!40001 SQL_NO_CACHE */ * FROM `lab`.`t1` ", "mydumper"),
        ("SELECT SQL_NO_CACHE `id` FROM `lab`.`t3` /* mysqlsh dumpSchemas, dumping table `lab`.`t3`, ID: chunk 0 */", "mysqlsh"),
        ("BACKUP STAGE BLOCK_COMMIT", "xtrabackup"),
        ("LOCK INSTANCE FOR BACKUP", "xtrabackup"),
        ("LOCK TABLES FOR BACKUP", "xtrabackup"),
        ("FLUSH TABLES WITH READ LOCK", None),  # people take it, too
        ("SELECT 'SELECT /*!40001 SQL_NO_CACHE */ * FROM `t`'", None),
        ("SELECT 1", None),
        ("", None),
    ],
)  # fmt: skip
def test_tool_of_statement_recognizes_backup_statements(statement: str, tool: str | None) -> None:
    found = tool_of_statement(statement)
    assert (found[0] if found else None) == tool
