"""The key of stored secrets is rotated while a web process and a worker run, which read the old one at their start."""

import pytest

from tests.stack import OPERATOR, Stack

from .test_connection_tests import ended

pytestmark = pytest.mark.services
TARGET = "replica-1"
TEST = f"""
from django.contrib.auth.models import User
from dbops.models import Instance
from dbops.operations.connection_tests import request_mysql
row = request_mysql(actor=User.objects.get(username="{OPERATOR}"), instance=Instance.objects.get(name="{TARGET}"))
print(row.pk)
"""


def keys(stack: Stack) -> list[str]:
    return (stack.folder / "encryption.key").read_text().strip().split(",")


def login_passes(stack: Stack) -> bool:
    found = ended(stack, int(stack.manage("shell", "--no-imports", "-c", TEST).stdout))
    assert found["status"] == "passed", found
    return True


def test_running_processes_take_up_a_rotated_key(stack: Stack) -> None:
    assert login_passes(stack)
    [old] = keys(stack)
    stack.manage("secrets", "rotate")
    assert keys(stack)[1:] == [old]
    [stored] = stack.rows("SELECT admin_password FROM dbops_cluster")
    assert login_passes(stack)
    stack.probe_now(TARGET)
    assert stack.wait_for_facts(TARGET, answering=True)["server_problem"] is None
    page = stack.get("/admin/credentials/", stack.session_key()).decode()
    assert 'data-secret="stored"' in page
    assert not [state for state in ("lost", "old key") if f'data-secret="{state}"' in page]
    assert stored == stack.rows("SELECT admin_password FROM dbops_cluster")[0]
