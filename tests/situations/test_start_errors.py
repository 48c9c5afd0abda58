"""A server that does not start says why in its own words, whatever started it."""

import pytest

from tests.e2e.host_state import last_rebuild
from tests.stack import Stack, running_stack
from tests.whole_file import write_whole

pytestmark = pytest.mark.services
SOURCE, TARGET = "backup-1", "replica-1"
#: an option that no server knows
BROKEN = "innodb_bufer_pool_size"


def break_options(stack: Stack) -> str:
    file = stack.lab.host(TARGET).config_file
    before = file.read_text()
    write_whole(file, before.replace("[mysqld]\n", f"[mysqld]\n{BROKEN} = 1G\n"))
    return before


@pytest.mark.situation("start", "failed with the server's own last errors")
def test_broken_option_is_named_by_the_error_of_a_rebuild_and_of_a_rollback() -> None:
    with running_stack(web=False) as stack:
        file = stack.lab.host(TARGET).config_file
        with file.open() as before:
            kept = before.read()
        stack.wait_for_possible_plan(TARGET)
        break_options(stack)
        try:
            _, lines = stack.rebuild(TARGET, check=False)
            error = lines[-1]["error"]
            assert error["code"] == "host.job", error
            assert BROKEN in error["cause"], error
            assert len(error["cause"]) < 1200
            assert error["cause"].isprintable()
            _, lines = stack.rebuild(TARGET, "--roll-back", check=False)
            error = lines[-1]["error"]
            assert error["code"] == "host.job", error
            assert BROKEN in error["cause"], error
        finally:
            write_whole(file, kept)
        assert last_rebuild(stack)["status"] == "failed"
