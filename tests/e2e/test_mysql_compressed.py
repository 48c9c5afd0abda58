"""A stream over a slow link on MySQL with XtraBackup: the tests of the other file on these servers."""

from collections.abc import Iterator

import pytest

from tests.stack import Stack

from .test_compressed import (  # noqa: F401
    slow_link,
    test_killed_compressor_fails_the_rebuild_and_releases_the_source,
    test_slow_link_rebuild_is_compressed_and_complete,
)
from .xtrabackup import FLAVORS

pytestmark = pytest.mark.services


@pytest.fixture(scope="module", params=FLAVORS)
def slow(request: pytest.FixtureRequest) -> Iterator[Stack]:
    with slow_link(request.param) as running:
        yield running
