"""The audit log's hash chain: the canonical form of an entry, its hash, and what a verification finds.

Each entry has the number after the last one's and names the last one's hash. Its own hash covers both, so that no entry
can be changed, taken out, put in or moved without the next one telling. What a chain cannot tell from inside is that its
end was cut off or written anew: that is seen only beside a head that was kept elsewhere (``witnesses``).
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

#: What the first entry of all names as the one before it.
GENESIS = "0" * 64
#: An entry whose number was changed is looked for this far from where it stands, for the first of them.
FAR, MOST_LOOKED_FOR = 64, 50
MOST_FINDINGS = 1000


class Tampering(StrEnum):
    """What can have been done to a log."""

    CHANGED = "changed"
    REMOVED = "removed"
    INSERTED = "inserted"
    REORDERED = "reordered"
    TRUNCATED = "truncated"
    UNGUARDED = "unguarded"


@dataclass(frozen=True, slots=True)
class ChainEntry:
    """One entry as it is stored: what its hash covers, and the hash.

    Attributes:
        at: aware.
        detail: plain data, as JSON has it.
    """

    sequence: int
    previous: str
    hash: str
    at: datetime
    actor: str
    action: str
    subject: str
    instance: str = ""
    cluster: str = ""
    outcome: str = ""
    reason: str = ""
    address: str = ""
    request: str = ""
    detail: Any = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ChainHead:
    """The end of the chain: the number and hash of its last entry. 0 and ``GENESIS``: there is none yet."""

    sequence: int = 0
    hash: str = GENESIS

    def __str__(self) -> str:
        return f"{self.sequence} {self.hash}"


@dataclass(frozen=True, slots=True)
class ChainFinding:
    """Something was done to the log: what, from which entry to which (a number each), in words."""

    kind: Tampering
    first: int
    last: int
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def plain(value: Any) -> Any:
    """Return data as every database gives it back: no NUL, no lone surrogates, no whole number with a point, no NaN."""
    if isinstance(value, str):
        return value.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            return str(value)
        return int(value) if value.is_integer() else value
    if isinstance(value, Mapping):
        return {plain(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def moment(at: datetime) -> str:
    """Return a time as the canonical form has it: UTC, six digits of a second, always."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def covered(link: ChainEntry) -> dict[str, Any]:
    """Return what the hash of an entry covers."""
    return {
        "sequence": link.sequence,
        "previous": link.previous,
        "at": moment(link.at),
        "actor": link.actor,
        "action": link.action,
        "subject": link.subject,
        "instance": link.instance,
        "cluster": link.cluster,
        "outcome": link.outcome,
        "reason": link.reason,
        "address": link.address,
        "request": link.request,
        "detail": plain(link.detail),
    }


def read_link(values: Mapping[str, Any]) -> ChainEntry:
    """Return an entry that was written as its canonical form with its hash.

    Raises:
        ValueError, KeyError, TypeError: it is none.
    """
    return ChainEntry(**{**values, "at": datetime.strptime(values["at"], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)})


def canonical(link: ChainEntry, sequence: int | None = None) -> bytes:
    """Return the canonical form: JSON, keys in order, no spaces, ASCII. ``sequence`` stands in for the entry's own number."""
    values = covered(link)
    if sequence is not None:
        values["sequence"] = sequence
    return json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def hash_of(link: ChainEntry, sequence: int | None = None) -> str:
    """Return the SHA-256 of the canonical form, in hexadecimal digits."""
    return hashlib.sha256(canonical(link, sequence)).hexdigest()


def digest(value: Any) -> str:
    """Return the SHA-256 of plain data, written as the canonical form is."""
    text = json.dumps(plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(slots=True)
class Verification:
    """Goes over a log once, from its first entry to its last, and keeps little of it.

    Attributes:
        start: what the first entry must follow.
        witnesses: heads that were kept elsewhere, hash by number.
    """

    start: ChainHead = field(default_factory=ChainHead)
    witnesses: Mapping[int, str] = field(default_factory=dict)
    findings: list[ChainFinding] = field(default_factory=list)
    count: int = 0
    _last: ChainEntry | None = None
    _number: int = 0
    _shift: int = 0
    _missing: list[tuple[int, int]] = field(default_factory=list)
    _twin: ChainEntry | None = None
    _is_sure: bool = True

    def __post_init__(self) -> None:
        self._number = self.start.sequence

    @property
    def head(self) -> ChainHead:
        """The last entry that was seen."""
        return ChainHead(self._number, self._last.hash) if self._last else self.start

    def see(self, link: ChainEntry) -> None:
        """Take the next entry, in the order in which they are stored."""
        self.count += 1
        number = self._true_number(link)
        if number is None:
            number = link.sequence + self._shift
            self._find(Tampering.CHANGED, number, f"entry {number} is not what its hash was made of")
            self._place(link, number, is_sure=False)
            return
        self._shift = number - link.sequence
        self._place(link, number, is_sure=True)

    def end(self, head: ChainHead | None = None) -> list[ChainFinding]:
        """Compare the end with the head that the log itself keeps, and return all that was found, by entry."""
        for first, last in self._missing:
            which = f"entry {first} is" if first == last else f"entries {first} to {last} are"
            self._find(Tampering.REMOVED, first, f"{which} not there", last)
        if head is not None:
            self._compare_with(head)
        for number, value in self.witnesses.items():
            if number > self._number and (head is None or number > head.sequence):
                text = f"the log ends with entry {self._number}, but a head of entry {number} ({value[:12]}…) was kept"
                self._find(Tampering.TRUNCATED, self._number + 1, text, number)
        return sorted(self.findings, key=lambda item: (item.first, item.kind))

    def _true_number(self, link: ChainEntry) -> int | None:
        """Return the number under which the entry was written, ``None`` where it is authentic under none nearby."""
        if hash_of(link) == link.hash:
            return link.sequence
        offsets = [self._shift]
        if len(self.findings) < MOST_LOOKED_FOR:
            offsets += [sign * far for far in range(1, FAR + 1) for sign in (1, -1)]
        return next(
            (link.sequence + offset for offset in offsets if hash_of(link, link.sequence + offset) == link.hash), None
        )

    def _place(self, link: ChainEntry, number: int, *, is_sure: bool) -> None:
        if number <= self._number:
            self._come_late(link, number, is_sure=is_sure)
            return
        is_next = number == self._number + 1
        if is_next:
            self._link(link, number, is_sure=is_sure)
        else:
            self._missing.append((self._number + 1, number - 1))
        self._witness(link, number)
        self._last, self._number, self._is_sure, self._twin = link, number, is_sure, None

    def _come_late(self, link: ChainEntry, number: int, *, is_sure: bool) -> None:
        """Judge an entry whose number is past: it stands too late, or there are two of it."""
        for place, (first, last) in enumerate(self._missing):
            if first <= number <= last:
                self._missing[place : place + 1] = [
                    item for item in ((first, number - 1), (number + 1, last)) if item[0] <= item[1]
                ]
                if is_sure:
                    self._find(Tampering.REORDERED, number, f"entry {number} stands after entry {self._number}")
                return
        if number == self._number and self._last is not None and self._twin is None:
            # Which of the two is the right one is told by the next entry, which names it.
            self._twin = link
            return
        self._find(Tampering.INSERTED, number, f"there is a second entry {number}")

    def _link(self, link: ChainEntry, number: int, *, is_sure: bool) -> None:
        """Hold an entry against the one before it."""
        before = self._last.hash if self._last else self.start.hash
        if self._twin is not None and self._last is not None:
            text = f"there is a second entry {self._number}"
            self._find(Tampering.INSERTED, self._number, f"{text}, which its successor does not name")
            if link.previous == self._twin.hash:
                return
        if link.previous == before or not is_sure:
            return
        if self._last is None:
            text = f"entry {number} does not follow {'the anchor' if self.start.sequence else 'the beginning'}"
            self._find(Tampering.CHANGED, number, text)
        elif link.previous == self._last.previous:
            text = f"entry {self._number} was put in: entry {number} follows the one before it"
            self._find(Tampering.INSERTED, self._number, text)
        elif self._is_sure:
            text = f"entry {self._number} is another one than entry {number} was written after"
            self._find(Tampering.CHANGED, self._number, text)

    def _witness(self, link: ChainEntry, number: int) -> None:
        kept = self.witnesses.get(number)
        if kept is not None and kept != link.hash:
            text = f"entry {number} is another one than when its head was kept elsewhere: it or one before it was written anew"
            self._find(Tampering.CHANGED, number, text)

    def _compare_with(self, head: ChainHead) -> None:
        ours = self.head
        if head.sequence > ours.sequence:
            text = f"the log ends with entry {ours.sequence}, its head says {head.sequence}"
            self._find(Tampering.TRUNCATED, ours.sequence + 1, text, head.sequence)
        elif head.sequence < ours.sequence:
            text = f"the log goes on to entry {ours.sequence}, its head says {head.sequence}"
            self._find(Tampering.INSERTED, head.sequence + 1, text, ours.sequence)
        elif self._twin is not None:
            self._find(Tampering.INSERTED, ours.sequence, f"there is a second entry {ours.sequence}")
        elif head.hash != ours.hash and self._is_sure:
            text = f"the last entry, {ours.sequence}, is another one than the head says"
            self._find(Tampering.CHANGED, ours.sequence, text)

    def _find(self, kind: Tampering, first: int, text: str, last: int | None = None) -> None:
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append(ChainFinding(kind, first, first if last is None else last, text))


def verify(
    links: Iterable[ChainEntry],
    head: ChainHead | None = None,
    *,
    start: ChainHead | None = None,
    witnesses: Mapping[int, str] | None = None,
) -> list[ChainFinding]:
    """Return what was done to a log; an empty result means that it is unchanged.

    Args:
        links: the entries in the order in which they are stored.
        head: what the log itself says its last entry is.
        start: what the first of them must follow; the beginning, where it is not given.
        witnesses: heads that were kept elsewhere, hash by number.
    """
    run = Verification(start or ChainHead(), witnesses or {})
    for link in links:
        run.see(link)
    return run.end(head)


def read_heads(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Return the heads in a file of them: lines whose last two words are a number and a hash. Others are passed over."""
    for line in lines:
        words = line.split()
        if len(words) >= 2 and words[-2].isdigit() and len(words[-1]) == len(GENESIS):
            yield int(words[-2]), words[-1]
