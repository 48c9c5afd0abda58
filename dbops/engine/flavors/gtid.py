"""Arithmetic with GTIDs as text: MySQL's sets, and MariaDB's positions and lists. White space is ignored.

MySQL: ``uuid[:tag]:first[-last]...,...``; tags came with 8.3. Backups of 5.7 have sets with newlines inside (measured with
XtraBackup 2.4.9). MariaDB: ``domain-server-sequence,...``, once for each domain in a position, and once for each server of a
domain in ``gtid_binlog_state``.
"""

import re

from dbops.engine.errors import RemoteFailure
from dbops.engine.phrases import phrase

#: Transactions by (uuid, tag): sorted intervals that do not touch, both ends included.
GtidSet = dict[tuple[str, str], list[tuple[int, int]]]
#: Sequence numbers by domain and server.
GtidPosition = dict[int, dict[int, int]]

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TAG = re.compile(r"[a-z_][a-z0-9_]{0,31}")
_INTERVAL = re.compile(r"(\d+)(?:-(\d+))?")
_MARIADB = re.compile(r"(\d{1,20})-(\d{1,20})-(\d{1,20})")


def without_space(text: str) -> str:
    return re.sub(r"\s+", "", text)


def _unreadable(text: str, part: str) -> RemoteFailure:
    return RemoteFailure(
        "gtid.unreadable",
        phrase("Reading a GTID position"),
        cause=phrase("{part} in {text}", part=f"{part!r}", text=f"{text[:200]!r}"),
    )


def parse_set(text: str) -> GtidSet:
    """Parse MySQL's GTID set.

    Raises:
        RemoteFailure: ``gtid.unreadable``.
    """
    found: GtidSet = {}
    for entry in without_space(text).lstrip("+").split(","):
        if not entry:
            continue
        uuid, *parts = entry.lower().split(":")
        tag = ""
        if not _UUID.fullmatch(uuid) or not parts:
            raise _unreadable(text, entry)
        for part in parts:
            if interval := _INTERVAL.fullmatch(part):
                first = int(interval[1])
                found.setdefault((uuid, tag), []).append((first, int(interval[2] or first)))
            elif _TAG.fullmatch(part):
                tag = part
            else:
                raise _unreadable(text, entry)
    return {key: merged for key, intervals in found.items() if (merged := _merge(intervals))}


def _merge(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(item for item in intervals if item[0] <= item[1]):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


def subtract(left: GtidSet, right: GtidSet) -> GtidSet:
    """Return the transactions of ``left`` that are not in ``right``."""
    result: GtidSet = {}
    for key, intervals in left.items():
        if rest := _cut(intervals, right.get(key, [])):
            result[key] = rest
    return result


def _cut(intervals: list[tuple[int, int]], holes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    rest = []
    for first, last in intervals:
        for start, end in holes:
            if end < first or start > last:
                continue
            if start > first:
                rest.append((first, start - 1))
            first = end + 1
        if first <= last:
            rest.append((first, last))
    return rest


def format_set(gtids: GtidSet) -> str:
    """Return a set in MySQL's form: one entry for each uuid, untagged intervals first."""
    entries: dict[str, str] = {}
    for (uuid, tag), intervals in sorted(gtids.items()):
        words = [str(first) if first == last else f"{first}-{last}" for first, last in intervals]
        entries[uuid] = ":".join([entries.get(uuid, uuid), *([tag] if tag else []), *words])
    return ",".join(entries.values())


def count(gtids: GtidSet) -> int:
    return sum(last - first + 1 for intervals in gtids.values() for first, last in intervals)


def parse_position(text: str) -> GtidPosition:
    """Parse MariaDB's GTID position or list.

    Raises:
        RemoteFailure: ``gtid.unreadable``.
    """
    position: GtidPosition = {}
    for entry in without_space(text).split(","):
        if not entry:
            continue
        found = _MARIADB.fullmatch(entry)
        if found is None:
            raise _unreadable(text, entry)
        domain, server, sequence = (int(number) for number in found.groups())
        servers = position.setdefault(domain, {})
        servers[server] = max(sequence, servers.get(server, 0))
    return position


def format_position(position: GtidPosition) -> str:
    return ",".join(
        f"{domain}-{server}-{sequence}"
        for domain, servers in sorted(position.items())
        for server, sequence in sorted(servers.items())
    )


def missing_from_position(wanted: GtidPosition, present: GtidPosition) -> GtidPosition:
    """Return the entries of ``wanted`` that ``present`` does not reach.

    With one entry for a domain, ``present`` is a position: it includes every transaction up to its number from any server, and an
    equal number by another server is a divergence. With more entries it is a list by server (``gtid_binlog_state``): each server
    is compared alone. A lower number of another server below a position looks the same as a shared one; only lists show the
    difference.
    """
    missing: GtidPosition = {}
    for domain, servers in wanted.items():
        have = present.get(domain, {})
        for server, sequence in servers.items():
            if not _reaches(have, server, sequence):
                missing.setdefault(domain, {})[server] = sequence
    return missing


def _reaches(have: dict[int, int], server: int, sequence: int) -> bool:
    if have.get(server, -1) >= sequence:
        return True
    return len(have) == 1 and max(have.values()) > sequence


def missing_from_lists(wanted: GtidPosition, *known: GtidPosition) -> GtidPosition:
    """Return the entries of ``wanted`` that no list in ``known`` reaches for the same domain and server.

    The last number of a domain is not compared: a lower number of another server can still be a transaction of that server alone.
    """
    missing: GtidPosition = {}
    for domain, servers in wanted.items():
        for server, sequence in servers.items():
            if all(found.get(domain, {}).get(server, -1) < sequence for found in known):
                missing.setdefault(domain, {})[server] = sequence
    return missing


def after(position: GtidPosition, start: GtidPosition) -> GtidPosition:
    """Return the entries of ``position`` with a higher number than any of their domain in ``start``."""
    found: GtidPosition = {}
    for domain, servers in position.items():
        reached = max(start.get(domain, {}).values(), default=-1)
        if later := {server: sequence for server, sequence in servers.items() if sequence > reached}:
            found[domain] = later
    return found


def union(*positions: GtidPosition) -> GtidPosition:
    """Return the highest number of each domain and server."""
    return parse_position(",".join(filter(None, map(format_position, positions))))


def count_missing_from_position(wanted: GtidPosition, present: GtidPosition) -> int:
    """Return the number of missing sequence numbers, at least 1 for each domain with a missing transaction."""
    total = 0
    for domain, servers in missing_from_position(wanted, present).items():
        reached = max(present.get(domain, {}).values(), default=0)
        total += max(1, max(servers.values()) - reached)
    return total


def furthest(left: GtidPosition, right: GtidPosition) -> GtidPosition:
    """Return for each domain the position with the higher number; ``right``'s if they are equal."""

    def reached(position: GtidPosition, domain: int) -> int:
        return max(position.get(domain, {}).values(), default=-1)

    domains = {**left, **right}
    return {domain: (left if reached(left, domain) > reached(right, domain) else right)[domain] for domain in domains}
