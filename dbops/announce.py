"""Tells the web processes that a rebuild has news. A hint: the table has the news, and the page polls without it."""

import logging

import redis
from django.conf import settings

STREAM = "dbops:rebuilds"
KEPT_ENTRIES = 1000
log = logging.getLogger(__name__)
_client: redis.Redis | None = None


def announce(rebuild_id: int, revision: int) -> None:
    """Add ``rebuild`` and ``revision`` to the stream that each web process reads. Never raises for a missing Redis."""
    global _client
    if _client is None:
        _client = redis.Redis.from_url(settings.REDIS_URL, socket_timeout=1, socket_connect_timeout=1)
    try:
        _client.xadd(STREAM, {"rebuild": rebuild_id, "revision": revision}, maxlen=KEPT_ENTRIES, approximate=True)
    except redis.RedisError as error:
        log.warning("announcing rebuild %s: %s", rebuild_id, error)
