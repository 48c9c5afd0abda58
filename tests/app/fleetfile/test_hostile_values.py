"""Any text in any field of the inventory is accepted as it is or refused in words; what is accepted cannot be an option."""

import posixpath
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbops.engine.rebuilds.steps.commands import split_command
from dbops.fleetfile.rules import CONTROL, field_problem
from dbops.models import Cluster, Host, Instance
from tests.hostile.texts import texts

ADDRESSES = ((Host, "ssh_address"), (Host, "stream_address"), (Instance, "address"))
PATHS = ((Host, "work_dir"), (Host, "authorized_keys_file"), (Instance, "datadir"), (Instance, "defaults_file"))
LOGINS = ((Host, "ssh_user"), (Instance, "os_user"), (Instance, "systemd_unit"))
NAMES = ((Host, "name"), (Cluster, "name"), (Instance, "name"))
ACCOUNTS = ((Cluster, "admin_user"), (Cluster, "replication_user"), (Cluster, "backup_user"))
COMMANDS = ((Instance, "start_command"), (Instance, "stop_command"))
nearly = st.one_of(
    texts,
    texts.map(lambda text: f"/{text}"),
    st.text("-abcAB01.:[]_@/\\", min_size=1, max_size=12),
)


@given(st.sampled_from([*ADDRESSES, *PATHS, *LOGINS, *NAMES, *ACCOUNTS, *COMMANDS]), nearly)
def test_field_problem_never_fails_and_refuses_control_characters(field: tuple[type, str], text: str) -> None:
    if text and not field_problem(*field, text):
        assert not CONTROL.search(text)


@given(st.sampled_from([*ADDRESSES, *LOGINS, *NAMES]), nearly)
def test_accepted_values_are_one_plain_word(field: tuple[type, str], text: str) -> None:
    """Accepted values are arguments of command lines: even without quotes each is one word and no option."""
    if text and not field_problem(*field, text):
        assert not text.startswith("-")
        assert not set(text) & set(" '\"`$;|&<>(){}*?!#~=%")


@given(st.sampled_from(PATHS), nearly)
def test_accepted_path_is_absolute_and_normal(field: tuple[type, str], text: str) -> None:
    if text and not field_problem(*field, text):
        assert text.startswith("/")
        assert posixpath.normpath(text) == text


@given(st.sampled_from(COMMANDS), nearly)
def test_accepted_command_begins_with_a_program(field: tuple[type, str], text: str) -> None:
    if text and not field_problem(*field, text):
        words = split_command(text)
        assert words[0].startswith("/")


@pytest.mark.parametrize("address", ["-V", "-G", "-oX", "--"])
@pytest.mark.parametrize("field", ADDRESSES)
def test_address_with_a_leading_dash_is_refused(field: tuple[type, str], address: str) -> None:
    assert "dash" in field_problem(*field, address)


def test_ssh_treats_a_dash_address_as_option() -> None:
    """Why: this is what it says to a host named -V."""
    done = subprocess.run(["ssh", "-F", "/dev/null", "-l", "root", "-V"], capture_output=True, text=True, check=False)
    assert done.stderr.startswith("OpenSSH_")
