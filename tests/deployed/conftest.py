"""One dashboard below a path, for all proxies."""

from collections.abc import Iterator

import pytest

from .compose import composed
from .dashboard import Dashboard, new_state
from .proxies import HOST

PREFIX = "/dbops"
#: In place of the network of compose: on loopback, so that a proxy has an address in it without rights.
SUBNET, GATEWAY = "127.30.57.0/24", "127.30.57.1"
TRUSTED = composed({"DBOPS_SUBNET": SUBNET})["services"]["web"]["environment"]["FORWARDED_ALLOW_IPS"]


@pytest.fixture(scope="package")
def dashboard() -> Iterator[Dashboard]:
    """Give a running web process below ``PREFIX``, for HTTPS alone, with a running rebuild.

    It trusts a proxy on this machine, and those that it would trust in a container.
    """
    settings = {"DBOPS_URL_PREFIX": PREFIX, "DBOPS_HTTPS": "1", "DBOPS_ALLOWED_HOSTS": HOST}
    with new_state() as state:
        found = Dashboard(state, FORWARDED_ALLOW_IPS=f"127.0.0.1,{TRUSTED}", **settings)
        found.fill()
        with found.running():
            yield found
