"""The address of Redis: one form (``DBOPS_REDIS_URL``) for redis-py and for Celery."""

from typing import Any
from urllib.parse import SplitResult, parse_qs, unquote, urlencode, urlsplit

import redis
import redis.asyncio
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.sentinel import Sentinel

SENTINEL_PORT = 26379


def broker_url(url: str) -> str:
    """Return the address in Celery's form.

    ``unix:///run/redis.sock?db=0`` is ``redis+socket://`` there, and several Sentinels are several addresses.
    """
    parts = urlsplit(url)
    if parts.scheme == "unix":
        # Not by urlunsplit, which leaves out the empty host's slashes.
        query = urlencode({"virtual_host": parse_qs(parts.query).get("db", ["0"])[0]})
        return f"redis+socket://{parts.netloc}{parts.path}?{query}"
    if parts.scheme == "sentinel":
        login, at, _ = parts.netloc.rpartition("@")
        return ";".join(f"sentinel://{login}{at}{host}:{port}{parts.path}" for host, port in _sentinels(parts))
    return url


def broker_options(url: str) -> dict[str, Any]:
    """Return what Celery takes as options of its transport instead of in the address."""
    parts = urlsplit(url)
    return {"master_name": _master(parts)} if parts.scheme == "sentinel" else {}


def connect(url: str, **options: Any) -> redis.Redis:
    """Return a client; it connects at its first command. ``options``: as of ``redis.Redis``."""
    parts = urlsplit(url)
    if parts.scheme != "sentinel":
        return redis.Redis.from_url(url, **options)
    login = _login(parts)
    found: redis.Redis = Sentinel(_sentinels(parts), **options).master_for(_master(parts), **login, **options)
    return found


def connect_async(url: str, **options: Any) -> redis.asyncio.Redis:
    """Return a client as ``connect``, for a coroutine."""
    parts = urlsplit(url)
    if parts.scheme != "sentinel":
        client: redis.asyncio.Redis = redis.asyncio.Redis.from_url(url, **options)
        return client
    found: redis.asyncio.Redis = AsyncSentinel(_sentinels(parts), **options).master_for(
        _master(parts), **_login(parts), **options
    )
    return found


def _sentinels(parts: SplitResult) -> list[tuple[str, int]]:
    """Return host and port of each Sentinel: ``sentinel://user:password@one:26379,two:26379/0?master=name``."""
    pairs = [place.rpartition(":") for place in parts.netloc.rpartition("@")[2].split(",")]
    return [(host, int(port)) if host else (port, SENTINEL_PORT) for host, _, port in pairs]


def _master(parts: SplitResult) -> str:
    """Return the name of the group of servers that the Sentinels watch.

    Raises:
        ValueError: the address has none.
    """
    found = parse_qs(parts.query).get("master", [""])[0]
    if not found:
        raise ValueError("DBOPS_REDIS_URL: sentinel:// needs ?master=NAME")
    return found


def _login(parts: SplitResult) -> dict[str, Any]:
    given = {"username": parts.username, "password": parts.password}
    return {"db": int(parts.path.strip("/") or 0), **{key: unquote(text) for key, text in given.items() if text}}
