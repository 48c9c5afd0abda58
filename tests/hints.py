"""Send a hint to a worker, as beat does."""

import os
from contextlib import suppress

import django
from django.apps import apps
from kombu.exceptions import OperationalError

from dbops.messaging.redis_server import broker_options, broker_url


def send_probe_hint(redis_url: str) -> None:
    """Ask a worker to probe what is due. Where Redis is away, beat will ask."""
    if not apps.ready:  # outside of pytest: script/soak, script/screenshots
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dbops.settings")
        django.setup()
    from dbops.worker.tasks import probe_due  # models can be imported when Django is set up

    options = broker_options(redis_url)
    with (
        suppress(OperationalError),
        probe_due.app.connection_for_write(broker_url(redis_url), transport_options=options) as redis,
    ):
        probe_due.apply_async(connection=redis, retry=False)
