"""Django system check of the queue's password."""

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import Error

HINT = "Put one into STATE_DIR/redis.password (mode 0600): script/run redis asks for it too (docs/how-to/install.md)"


def check_redis_password(**_: Any) -> list[Error]:
    """Refuse a deployment whose queue is open to everyone who reaches it. A Unix socket has permissions instead."""
    parts = urlsplit(settings.REDIS_URL)
    if parts.scheme in ("unix", "redis+socket") or parts.password:
        return []
    return [Error(f"Redis at {parts.hostname} has no password.", hint=HINT, id="dbops.E002")]
