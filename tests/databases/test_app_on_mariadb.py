"""`tests/app` on MariaDB."""

from pathlib import Path

import pytest

from tests.databases.app_tests import run_app_tests

pytestmark = pytest.mark.services


def test_app_tests_pass_on_mariadb(tmp_path: Path) -> None:
    run_app_tests("mariadb", tmp_path)
