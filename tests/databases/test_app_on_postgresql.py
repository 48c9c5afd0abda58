"""`tests/app` on PostgreSQL."""

from pathlib import Path

import pytest

from tests.databases.app_tests import run_app_tests

pytestmark = pytest.mark.services


def test_app_tests_pass_on_postgresql(tmp_path: Path) -> None:
    run_app_tests("postgresql", tmp_path)
