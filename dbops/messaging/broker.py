"""Celery transport for hints. It drops what is no hint, and does not restore unacknowledged messages."""

import logging
import time
from typing import Any

from kombu.transport import redis

from dbops.messaging.hints import checked_message
from dbops.messaging.wakeups import publish

log = logging.getLogger(__name__)
#: What a message raises that has no text, no JSON, or another shape than a hint.
UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, RecursionError)
#: Hints that wait in a queue while no worker takes them. More say nothing new: the tables decide what is due.
MOST_WAITING = 100
#: A flood of unreadable messages leads to one line and one count in this time.
REPORT_SECONDS = 10.0


class DroppedMessages:
    """Count the unreadable messages of this process, and report them at most once in ``REPORT_SECONDS``."""

    def __init__(self) -> None:
        self.count, self.reported_at = 0, float("-inf")

    def add(self, queue: str, error: Exception) -> None:
        self.count += 1
        if time.monotonic() - self.reported_at < REPORT_SECONDS:
            return
        log.warning("dropped %s unreadable messages, the last from queue %s: %r", self.count, queue, error)
        self.reported_at = time.monotonic()
        if publish("count_dropped_messages", self.count):
            self.count = 0


dropped = DroppedMessages()


class HintQoS(redis.QoS):
    """Take no message back from Redis: the reconciler repeats lost hints, and anyone may have written what is there."""

    def restore_visible(self, *args: Any, **kwargs: Any) -> None:
        pass


class HintChannel(redis.Channel):
    """A channel that survives every message, and restores none when it closes.

    Kombu decodes messages in the worker's main loop: one that is no JSON ended the worker (measured with kombu 5.7.0).

    Kombu restores unacknowledged messages even if the channel closes because Redis is down. In 1 of about 70 restarts of
    Redis, that ended the whole worker (measured with kombu 5.7.0: ``AttributeError`` in ``restore_unacked_once``, logged by
    Celery as "Unrecoverable error"). The reconciler repeats lost hints, because the table decides what is due.
    """

    do_restore = False
    QoS = HintQoS

    def _put(self, queue: str, message: Any, **options: Any) -> None:
        """Put a hint into the queue, unless enough wait. Hints have no expiry: clocks of two machines can differ."""
        with self.conn_or_acquire() as client:
            if client.llen(queue) < MOST_WAITING:
                super()._put(queue, message, **options)

    def _brpop_read(self, **options: Any) -> bool | None:
        try:
            taken: bool | None = super()._brpop_read(**options)  # type: ignore[misc]  # not in its types
        except OSError:
            raise  # of the connection; one of TLS is a ValueError, too
        except UNREADABLE as error:
            dropped.add("(unknown)", error)
            return None
        return taken


class HintTransport(redis.Transport):
    Channel = HintChannel

    def _deliver(self, message: Any, queue: str | None) -> None:
        """Deliver a hint as a new message; drop everything else."""
        try:
            hint = checked_message(message, queue or "")
        except UNREADABLE as error:
            dropped.add(queue or "", error)
            return
        super()._deliver(hint, queue)


class SentinelHintChannel(HintChannel, redis.SentinelChannel):
    """The same, on the server that Sentinels name."""


class SentinelHintTransport(HintTransport):
    Channel = SentinelHintChannel
    default_port = redis.SentinelTransport.default_port
