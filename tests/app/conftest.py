"""Three people: olga operates, victor looks, sam has no business here."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.app.factories import make_operator, make_user, make_viewer


@pytest.fixture(autouse=True)
def _quick_and_without_collected_files(settings: Any) -> None:
    """No static files are collected for tests: look each one up. Passwords are hashed fast, as they guard nothing here."""
    settings.WHITENOISE_AUTOREFRESH = True
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def olga(db: None) -> User:
    return make_operator()


@pytest.fixture
def victor(db: None) -> User:
    return make_viewer()


@pytest.fixture
def sam(db: None) -> User:
    return make_user("sam")


def _client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def operator(olga: User) -> Client:
    return _client_of(olga)


@pytest.fixture
def viewer(victor: User) -> Client:
    return _client_of(victor)


@pytest.fixture
def stranger(sam: User) -> Client:
    return _client_of(sam)
