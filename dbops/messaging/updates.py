"""Notify web processes of a rebuild's changes. Only a hint: the table has the changes, and pages also poll."""

import logging
from collections.abc import Iterable

import redis
from django.conf import settings

from dbops.messaging.redis_server import connect

STREAM = "dbops:rebuilds"
KEPT_ENTRIES = 1000
log = logging.getLogger(__name__)
_client: redis.Redis | None = None


def announce(rebuild_id: int, revision: int) -> None:
    """Add ``rebuild`` and ``revision`` to the stream that web processes read. Does not raise without Redis."""
    announce_many([(rebuild_id, revision)])


def announce_many(revisions: Iterable[tuple[int, int]]) -> None:
    """Announce the newest of many (rebuild, revision) pairs in one round trip, up to the stream's length."""
    global _client
    if _client is None:
        _client = connect(settings.REDIS_URL, socket_timeout=1, socket_connect_timeout=1)
    last = list(revisions)[-KEPT_ENTRIES:]
    try:
        with _client.pipeline(transaction=False) as pipeline:
            for rebuild_id, revision in last:
                pipeline.xadd(
                    STREAM, {"rebuild": rebuild_id, "revision": revision}, maxlen=KEPT_ENTRIES, approximate=True
                )
            pipeline.execute()
    except redis.RedisError as error:
        log.warning("announcing %s rebuilds: %s", len(last), error)
