import pytest

from tests.app.fleetfile.builders import FleetFolder


@pytest.fixture(autouse=True)
def quick_and_quiet(settings, tmp_path):
    """Passwords hashed quickly; a directory of collected files that exists, which WhiteNoise asks for; the one of key files."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.STATIC_ROOT = tmp_path
    settings.KEY_DIRECTORY = tmp_path


@pytest.fixture
def folder(tmp_path) -> FleetFolder:
    return FleetFolder(tmp_path)
