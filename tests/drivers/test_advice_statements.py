"""The statements of advice on real servers of each series: set, read back, undo; and the lines after a restart."""

import time
from contextlib import closing
from typing import Any

import pytest

from dbops.engine.errors import RemoteFailure
from dbops.engine.flavors.setting_changes import SettingChange, change_of, redo_setting
from tests.drivers.clusters import SERIES
from tests.plain_servers import PlainServer, plain_server

pytestmark = pytest.mark.services
MIB = 1024**2
POOL = "innodb_buffer_pool_size"
#: New values of each setting that advice changes; MariaDB has no sync array.
NEW = {
    "table_open_cache": 3000,
    "table_definition_cache": 3000,
    "innodb_open_files": 5000,
    "open_files_limit": 15_000,
    POOL: 256 * MIB,
    "innodb_purge_threads": 8,
    "innodb_sync_array_size": 16,
}


def changes(server: PlainServer) -> list[SettingChange]:
    flavor = server.flavor
    wanted = NEW | {redo_setting(flavor.name, flavor.version): 256 * MIB}
    if flavor.name == "mariadb":
        del wanted["innodb_sync_array_size"]
    made = [
        change_of(flavor.name, flavor.version, name, old=str(value_of(server, name)), new=str(new))
        for name, new in wanted.items()
    ]
    return [*made, change_of(flavor.name, flavor.version, "innodb_doublewrite", old="ON", new="OFF")]


def value_of(server: PlainServer, name: str) -> Any:
    return server.ask(f"SELECT @@GLOBAL.{name}")


def settled(server: PlainServer, name: str, wanted: str) -> str:
    """Return the value once it is the wanted one: a buffer pool is resized in the background.

    The value is there before the resizing has ended. A change in between can be lost (seen with MySQL 9.7).
    """
    deadline = time.monotonic() + 60
    while (found := str(value_of(server, name))) != wanted or (name == POOL and is_resizing(server)):
        if time.monotonic() > deadline:
            break
        time.sleep(0.2)
    return found


def is_resizing(server: PlainServer) -> bool:
    if server.flavor.name == "mariadb":
        return False
    status = "SELECT VARIABLE_VALUE FROM performance_schema.global_status WHERE VARIABLE_NAME = 'Innodb_buffer_pool_resize_status'"
    return not str(server.ask(status)).startswith(("Completed", "Size did not change"))


def assert_is(server: PlainServer, name: str, wanted: str) -> None:
    found = str(value_of(server, name))
    if name == "open_files_limit":
        # a server takes more if its caches need more, up to the limit of its process
        assert int(found) >= min(int(wanted), 15_000), name
    else:
        words = {"OFF": "0", "ON": "1"}
        assert words.get(found, found) == words.get(wanted, wanted), name


@pytest.mark.parametrize("series", list(SERIES))
def test_changes_take_effect_and_are_undone(series: str) -> None:
    if SERIES[series]:
        pytest.skip(SERIES[series])
    with plain_server(series, ["innodb_open_files = 4000"]) as server:
        made = changes(server)
        for change in made:
            if change.statement:
                server.run(change.statement)
                assert settled(server, change.name, change.new) == change.new, change.name
                server.run(change.undo)
                assert settled(server, change.name, change.old) == change.old, change.name
        with closing(server.connect()) as database:
            for change in (one for one in made if one.needs_restart and one.name != "innodb_doublewrite"):
                with pytest.raises(RemoteFailure):
                    database.execute(f"SET GLOBAL {change.name} = {change.new}")
    with plain_server(series, [change.line for change in made]) as restarted:
        for change in made:
            assert_is(restarted, change.name, change.new)
    with plain_server(series, [change.undo_line for change in made]) as undone:
        for change in made:
            assert_is(undone, change.name, change.old)
