"""One address of Redis for redis-py and for Celery."""

import pytest

from dbops.messaging.redis_server import broker_options, broker_url, connect


@pytest.mark.parametrize(
    ("url", "for_celery", "options"),
    [
        ("redis://:pw@r.example:6380/1", "redis://:pw@r.example:6380/1", {}),
        ("rediss://u:pw@r.example/0?ssl_cert_reqs=required", "rediss://u:pw@r.example/0?ssl_cert_reqs=required", {}),
        ("unix:///run/r.sock?db=3", "redis+socket:///run/r.sock?virtual_host=3", {}),
        ("unix://:pw@/run/r.sock", "redis+socket://:pw@/run/r.sock?virtual_host=0", {}),
        (
            "sentinel://u:pw@one:1,two/2?master=dbops",
            "sentinel://u:pw@one:1/2;sentinel://u:pw@two:26379/2",
            {"master_name": "dbops"},
        ),
    ],
)
def test_broker_url_is_celerys_form(url: str, for_celery: str, options: dict[str, str]) -> None:
    assert broker_url(url) == for_celery
    assert broker_options(url) == options


def test_sentinel_needs_the_name_of_a_group() -> None:
    with pytest.raises(ValueError, match="master"):
        broker_options("sentinel://one:1/0")


def test_client_of_sentinels_has_login_and_database() -> None:
    client = connect("sentinel://u:p%40w@one:1,two/2?master=dbops", socket_timeout=1)
    kwargs = client.connection_pool.connection_kwargs
    assert (kwargs["username"], kwargs["password"], kwargs["db"]) == ("u", "p@w", 2)
