"""A fleet, and programs that read and operate it."""

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache

from dbops.models import Instance
from tests.app import rows
from tests.app.api.calls import Program, program_of


@pytest.fixture(autouse=True)
def _no_requests_of_other_tests(no_broker: None) -> None:
    cache.clear()


@pytest.fixture
def fleet(db: None) -> dict[str, Instance]:
    return rows.make_fleet()


@pytest.fixture
def reader(victor: User) -> Program:
    return program_of(victor, "read")


@pytest.fixture
def program(olga: User) -> Program:
    return program_of(olga)
