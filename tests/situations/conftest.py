"""One stack for the tests of this folder; a test that changes a host gives it back as it was."""

from collections.abc import Iterator

import pytest

from tests.stack import Stack, running_stack


@pytest.fixture(scope="package")
def stack() -> Iterator[Stack]:
    with running_stack() as running:
        yield running
