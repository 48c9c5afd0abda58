"""Redis as the broker of hints: what Redis takes with it when it goes is not put back by the worker."""

from kombu.transport import redis


class HintChannel(redis.Channel):
    """A channel that puts nothing back when it closes.

    Kombu puts back what was delivered and not yet acknowledged, also when the channel closes because Redis is gone; in 1 of about
    70 restarts of Redis that ended the whole worker (measured with kombu 5.7.0: ``AttributeError`` in ``restore_unacked_once``, told
    by Celery as "Unrecoverable error"). A hint that is lost here is sent again by the reconciler, since the table says what is due.
    """

    do_restore = False


class HintTransport(redis.Transport):
    Channel = HintChannel
