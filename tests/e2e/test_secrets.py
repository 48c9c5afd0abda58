"""Hosts that print passwords into everything that is read of them: none is found where people, files or backups could see it."""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from html import unescape
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
import redis

from tests.faults.injectors import tools
from tests.stack import OPERATOR_PASSWORD, VIEWER_PASSWORD, Stack

from .test_observed_backups import begun, client_options, last, slow_reader

pytestmark = pytest.mark.services
TARGET, SOURCE = "replica-1", "backup-1"
#: A password that dbops does not know: it is recognised by its place.
STRANGE = "Xq7-nobody-told-dbops"
#: Their answers never end, or end the session.
NO_PAGES = re.compile(r"/(events|logout|static)/")
#: Pages of one kind differ in their number or name alone: these many are read, those of the test's own rebuild first.
ENOUGH_OF_A_KIND = 12


def secrets_of_dbops(stack: Stack) -> dict[str, str]:
    found: dict[str, str] = json.loads((stack.lab.folder / "secrets.json").read_text())
    return {name: found[name] for name in ("admin", "replication", "backup")}


@contextmanager
def talkative(stack: Stack) -> Iterator[None]:
    """Let the backup tool of both hosts say every password, plainly, in a URL, and as servers and tools quote it."""
    lines = [
        line
        for value in secrets_of_dbops(stack).values()
        for line in (
            value,
            f"mysql://dbops:{value}@db:3306/",
            f"Access denied (using password: '{value}')",
            f"a{value}b",
        )
    ]
    hosts = [stack.lab.host(name) for name in (SOURCE, TARGET)]
    try:
        for host in hosts:
            tools.install(host)
            tools.set_lines(host, [*lines, f"IDENTIFIED BY '{STRANGE}'", f"--password={STRANGE}"])
            for stage in ("backup", "prepare"):
                tools.order(host, "prints what it should not", stage)
        yield
    finally:
        for host in hosts:
            tools.remove(host)


def dump_with_a_password(stack: Stack) -> None:
    """Let somebody's dump, with its password on its command line, be seen by a probe."""
    before = last(stack)
    words = [
        "mariadb-dump",
        "--no-defaults",
        *client_options(stack, SOURCE),
        f"--password={STRANGE}",
        "--all-databases",
    ]
    with slow_reader(words):
        begun(stack, before, "the dump", status="running")
    begun(stack, before, "its end", status="ended")


def pages(stack: Stack, rebuild: str) -> dict[str, bytes]:
    """Return every page that links lead to from the rebuild's and the first one, with the files among them."""
    session, found, waiting = (
        stack.session_key(),
        dict[str, bytes](),
        [f"/rebuilds/{rebuild}/", "/", "/audit/?format=csv", "/audit/?format=jsonl"],
    )
    while waiting:
        path = waiting.pop(0)
        found[path] = stack.get(path, session)
        for link in re.findall(rb'(?:href|hx-get)="([^"#]+)', found[path]):
            address = urlsplit(urljoin(f"{stack.url}{path}", unescape(link.decode())))
            there = address.path + (f"?{address.query}" if address.query else "")
            is_new = there not in found and there not in waiting and not NO_PAGES.search(there)
            if is_new and address.netloc == f"127.0.0.1:{stack.web_port}" and not enough(there, found, waiting):
                waiting.append(there)
    return found


def enough(path: str, *seen: Iterable[str]) -> bool:
    """Tell whether others like it were seen: of pages that differ in their filter alone three are enough."""
    known = [address.partition("?")[0] for addresses in seen for address in addresses]
    bare = path.partition("?")[0]
    of_a_kind = {address for address in known if kind(address) == kind(bare)} - {bare}
    return known.count(bare) >= 3 or len(of_a_kind) >= ENOUGH_OF_A_KIND


def kind(path: str) -> str:
    """Return the address without its numbers, and without names that have one."""
    return re.sub(r"[\w-]*\d[\w-]*", "*", path)


def in_redis(stack: Stack) -> bytes:
    """Return every value of Redis, whatever its type."""
    client = redis.Redis(port=stack.redis_port)
    readers: dict[bytes, Any] = {
        b"string": client.get,
        b"list": lambda key: client.lrange(key, 0, -1),
        b"set": client.smembers,
        b"hash": client.hgetall,
        b"zset": lambda key: client.zrange(key, 0, -1),
        b"stream": client.xrange,
    }
    return b"\n".join(key + b" " + repr(readers[client.type(key)](key)).encode() for key in client.scan_iter())


def kept(stack: Stack, rebuild: str) -> dict[str, bytes]:
    """Return whatever outlives the rebuild: the dashboard's files, Redis and pages. What a host keeps of its own tools is its own."""
    found = {f"page {path}": content for path, content in pages(stack, rebuild).items()}
    found["redis"] = in_redis(stack)
    for path in [*stack.folder.rglob("*.log"), *stack.folder.glob("dbops.sqlite3*")]:
        found[str(path)] = path.read_bytes()
    return found


def test_passwords_from_hosts_are_never_stored_or_shown(stack: Stack) -> None:
    with talkative(stack):
        stack.wait_for_possible_plan(TARGET)
        _, lines = stack.rebuild(TARGET)
        dump_with_a_password(stack)
    found = kept(stack, str(lines[-1]["rebuild"]))
    # It was said, and where: the lines are there, without what they said.
    assert any(
        b"Access denied (using password:" in content for where, content in found.items() if "/rebuilds/" in where
    ), sorted(found)
    assert len([where for where in found if where.startswith("page ")]) > 60
    for name in ("worker.log", "web.log", "beat.log"):
        assert str(stack.folder / name) in found
    secrets = {**secrets_of_dbops(stack), "strange": STRANGE, "olga's": OPERATOR_PASSWORD, "victor's": VIEWER_PASSWORD}
    # A file of keys has several after a rotation. Others, such as the lock of one, are empty.
    secrets |= {
        f"{path.name} {place}": secret
        for path in stack.folder.glob("*key*")
        if path.is_file()
        for place, secret in enumerate(path.read_text().strip().split(","))
        if secret
    }
    leaks = [
        f"{name} is in {where}: {content[max(0, at - 80) : at + 20]!r}"
        for where, content in found.items()
        for name, secret in secrets.items()
        if (at := content.find(secret.encode())) >= 0
    ]
    assert leaks == [], "\n".join(leaks)
