"""A test on real servers that never ends. ``test_interrupted_runs`` starts it by its path; no other run collects it."""

import os
import time
from pathlib import Path

import pytest

from tests.stack import running_stack

pytestmark = pytest.mark.services


def test_that_never_ends() -> None:
    with running_stack(size="8M", backups=0, replicas=0):
        Path(os.environ["DBOPS_TESTS_ARE_UP"]).touch()
        time.sleep(3600)
