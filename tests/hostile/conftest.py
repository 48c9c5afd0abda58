"""What the attacks share."""

from pathlib import Path

import pytest

from tests.drivers.conftest import certificate

from .ground import ground

__all__ = ["ground"]


@pytest.fixture(scope="session")
def stolen_certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with a certificate and its key, as the server's account can read them on its host."""
    folder = tmp_path_factory.mktemp("certificate")
    paths = certificate(folder)
    both = folder / "both.pem"
    both.write_text(paths["cert"].read_text() + paths["key"].read_text())
    return both
