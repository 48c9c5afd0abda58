"""A dump and a stream are written by others: their commands, options and links gain nothing on the host that loads them."""

import gzip
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dbops.engine.flavors.base import Flavor
from dbops.engine.flavors.dump_load import initialise_command, load_server_options
from dbops.engine.flavors.mariadb import MariaDB
from dbops.engine.flavors.mysql import MySQL
from dbops.engine.flavors.optionfile import option_words
from dbops.engine.hosts.scripts import load
from lab.checks import find_program
from lab.unpacked import MYSQL, why_no_mysql
from tests.stack import wait_for

from .attacker import ACCOUNT, as_account
from .ground import RUN, SECRET, Ground
from .test_data_directory import mark, run

AS_ACCOUNT = ("setpriv", f"--reuid={ACCOUNT}", f"--regid={ACCOUNT}", "--init-groups")
#: Every way in which a client can be made to run a program, write a file or read one, each alone on a line.
COMMANDS = (
    "\\! touch {canary}",
    "system touch {canary}",
    "SELECT 1 \\! touch {canary}",
    "SELECT 1;\r\\! touch {canary}",
    "DELIMITER ;;\nsystem touch {canary} ;;\nDELIMITER ;",
    "source {script}",
    "\\. {script}",
    "pager touch {canary}",
    "\\P touch {canary}",
    "tee {canary}",
    "\\T {canary}",
    "edit",
)


def programs(name: str, folder: Path) -> tuple[Flavor, str, str, str, Path]:
    """Return flavor, installing program, server, client and an option file."""
    file = folder / "my.cnf"
    if name == "mariadb":
        file.write_text("[mysqld]\n")
        found = [find_program(program) for program in ("mariadb-install-db", "mariadbd", "mariadb")]
        return MariaDB((10, 11, 0)), *map(str, found), file  # type: ignore[return-value]
    prefix = MYSQL.folder()
    assert prefix is not None
    file.write_text(
        f"[mysqld]\nbasedir={prefix}/usr\nlc-messages-dir={prefix}/usr/share/mysql\nplugin-dir={prefix}/usr/lib/mysql/plugin\n"
        f"character-sets-dir={prefix}/usr/share/mysql/charsets\nsecure-file-priv=\n"
    )
    found = MYSQL.programs(prefix)
    return MySQL((9, 7, 0)), found["mysqld"], found["mysqld"], found["mysql"], file


def empty_data(ground: Ground) -> None:
    shutil.rmtree(ground.data)
    ground.data.mkdir()
    shutil.chown(ground.data, ACCOUNT, ACCOUNT)


@contextmanager
def running_server(ground: Ground) -> Iterator[Path]:
    """Run MariaDB as the account on the data directory. Yield its socket: ``root`` has no password there."""
    empty_data(ground)
    socket = ground.data / "s"
    install, server = find_program("mariadb-install-db"), find_program("mariadbd")
    assert install
    assert server
    prepare = [install, "--no-defaults", f"--datadir={ground.data}", "--auth-root-authentication-method=normal"]
    subprocess.run([*AS_ACCOUNT, *prepare, "--skip-test-db"], cwd="/", check=True, capture_output=True)
    words = ["--no-defaults", f"--datadir={ground.data}", f"--socket={socket}", "--skip-networking"]
    process = subprocess.Popen([*AS_ACCOUNT, server, *words], cwd="/", stderr=subprocess.DEVNULL)
    try:
        wait_for("the server listens", socket.exists, 60)
        yield socket
    finally:
        process.terminate()
        process.wait(60)


@pytest.mark.services
@pytest.mark.parametrize("name", ["mariadb", "mysql"])
def test_commands_in_a_dump_are_not_run(ground: Ground, name: str) -> None:
    """A comment of any account on the source can put a line into the dump. The dump's statements still run."""
    if name == "mysql" and why_no_mysql():
        pytest.skip(why_no_mysql())
    open_place = ground.folder / "open"
    open_place.mkdir()
    open_place.chmod(0o1777)
    canary = open_place / "canary"
    statements = "CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY); INSERT INTO shop.t VALUES (1);"
    packed = ground.folder / "dump.gz"
    packed.write_bytes(gzip.compress(f"{statements}\n\\! touch {canary}\n".encode()))
    flavor, install, server, client, options = programs(name, ground.folder)
    empty_data(ground)
    as_account(mark(ground).touch)
    initialise = initialise_command(flavor, install, defaults_file=str(options), datadir=str(ground.data))
    serve = [server, *option_words(str(options)), *load_server_options(flavor, memory_bytes=64 * 1024**2)]
    pull = ["cat", str(packed)]
    words = [ground.data, ground.identity(ground.data), RUN, ACCOUNT, client]
    run(
        ground,
        load("common", "inside", "pipes", "load_dump"),
        *words,
        *(len(part) for part in (initialise, serve, pull)),
        *initialise,
        *serve,
        *pull,
    )
    assert (ground.folder / "job" / "stage.load").exists(), (ground.folder / "job" / "log.server").read_text()
    assert not canary.exists()
    assert (ground.data / "shop" / "t.ibd").exists()
    assert (ground.data / "ibdata1").owner() == ACCOUNT


@pytest.mark.services
def test_no_line_of_a_dump_is_a_command(ground: Ground) -> None:
    """Each way alone, with the script's options. Without them the first one works: the control."""
    client = find_program("mariadb")
    assert client
    options = load("common").partition("only_sql=(")[2].partition(")")[0].split()
    with running_server(ground) as socket:
        canary, script = ground.data / "canary", ground.data / "script.sql"
        script.write_text(f"\\! touch {canary}\n")

        def give(line: str, *further: str) -> None:
            words = [*AS_ACCOUNT, client, "--no-defaults", f"--socket={socket}", "--user=root", "--force", *further]
            text = line.format(canary=canary, script=script) + "\nSELECT 1;\n"
            subprocess.run(words, input=text.encode(), cwd="/", capture_output=True, check=False)

        give(COMMANDS[0])
        assert canary.exists()
        canary.unlink()
        for line in COMMANDS:
            give(line, *options)
            assert not canary.exists(), line


LIBRARY = "file_key_management"
STREAMS_OPTIONS = f"""[mysqld]
innodb_page_size=16384
innodb_undo_directory=/etc
innodb_data_file_path=../../etc/ibdata1:12M:autoextend
innodb_log_file_size = 50331648
plugin_dir=/tmp/evil
plugin_load={LIBRARY}.so
{LIBRARY}_filename=/tmp/evil/keys
log_error=/etc/cron.d/evil
init_file=/tmp/evil/init.sql
"""


def options_after_check(ground: Ground, own: str) -> tuple[int, list[str]]:
    """Return the status of the check and the options that the tool reads afterwards. ``own``: the host's option file."""
    (ground.folder / "my.cnf").write_text(f"[mysqld]\n{own}")
    file = ground.data / "backup-my.cnf"
    file.write_text(STREAMS_OPTIONS)
    shutil.chown(file, ACCOUNT, ACCOUNT)
    script = load("common", "tool_options", "copied_options") + '\nbecome "$1"; shift; check_copied_options "$@"'
    ended = run(ground, script, ACCOUNT, ground.data, ground.folder / "my.cnf", "", "mysqld")
    return ended.returncode, file.read_text().splitlines()


def test_prepare_gets_no_option_of_the_stream_that_is_not_checked(ground: Ground) -> None:
    """A source once named the library and the directory that the target's tool loads it from."""
    own = f"plugin-load-add={LIBRARY}\n{LIBRARY}_filename=/etc/mysql/keys\nplugin-dir=/usr/lib/plugins\n"
    status, lines = options_after_check(ground, own)
    assert status == 0
    assert sorted(lines[1:]) == [
        f'{LIBRARY}_filename="/etc/mysql/keys"',
        "innodb_log_file_size=50331648",
        "innodb_page_size=16384",
        'plugin-dir="/usr/lib/plugins"',
        f"plugin_load={LIBRARY}.so",
    ]


def test_prepare_loads_no_library_that_the_host_does_not_load(ground: Ground) -> None:
    status, lines = options_after_check(ground, "")
    assert status != 0
    assert "plugin_load" in "".join(lines)  # nothing was replaced, and nothing was started


@pytest.mark.services
@pytest.mark.parametrize("link", [True, False])
def test_backup_tool_follows_no_link_out_of_the_data(ground: Ground, link: bool) -> None:
    """A link in place of a table's file once carried root's file to the target and into every backup."""
    tool = find_program("mariadb-backup")
    assert tool
    with running_server(ground) as socket:
        if link:
            made = "CREATE DATABASE shop; CREATE TABLE shop.m (id INT) ENGINE=MyISAM; INSERT INTO shop.m VALUES (1); FLUSH TABLES"
            client = find_program("mariadb")
            assert client
            subprocess.run([client, "--no-defaults", f"--socket={socket}", "--user=root", "-e", made], check=True)
            (ground.data / "shop" / "m.MYD").unlink()
            (ground.data / "shop" / "m.MYD").symlink_to(ground.roots / "secret")
        job = ground.folder / "job"
        job.mkdir(mode=0o700)
        (job / "backup.cnf").write_text("[client]\nuser=root\n")
        words = [tool, f"--defaults-file={job}/backup.cnf", "--backup", "--stream=xbstream", f"--datadir={ground.data}"]
        words += [f"--socket={socket}", f"--target-dir={job}/target", f"--extra-lsndir={job}/lsn"]
        script = load("common", "tool_account")
        script += (
            '\nmake_tool_directory "$1" run; set_tool_words "$1" run "${@:2}"; "${tool_words[@]}" >stream 2>log.tool'
        )
        script += "\nstatus=$?; print_tool_files xtrabackup_info; exit $status"
        ended = run(ground, script, ACCOUNT, *words)
        assert SECRET.encode() not in (job / "stream").read_bytes()
        assert (ended.returncode == 0) is not link, (job / "log.tool").read_text()[-500:]
        assert ended.stdout.startswith("xtrabackup_info ") is not link
