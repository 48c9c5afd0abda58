"""The hash chain of the audit log: canonical form, hashes and verification.

Each entry has the next number and the hash of its predecessor, and its own hash covers both. So the next entry
reveals a changed, removed, inserted or moved entry. Only an exported head (``witnesses``) reveals a chain whose end
was cut off or rewritten.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

#: The predecessor's hash of the very first entry.
GENESIS = "0" * 64
#: How far from its place an entry with a changed number is searched for, and for how many findings.
FAR, MOST_FINDINGS = 64, 50
MOST_FINDINGS = 1000


class Tampering(StrEnum):
    """Kinds of tampering."""

    CHANGED = "changed"
    REMOVED = "removed"
    INSERTED = "inserted"
    REORDERED = "reordered"
    TRUNCATED = "truncated"
    UNGUARDED = "unguarded"
    UNWRITABLE = "unwritable"


@dataclass(frozen=True, slots=True)
class ChainEntry:
    """One stored entry: the hashed content and the hash.

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
    """The end of the chain: number and hash of the last entry. 0 and ``GENESIS`` mean an empty chain."""

    sequence: int = 0
    hash: str = GENESIS

    def __str__(self) -> str:
        return f"{self.sequence} {self.hash}"


@dataclass(frozen=True, slots=True)
class ChainFinding:
    """Evidence of tampering: its kind, the first and last entry number, and a text."""

    kind: Tampering
    first: int
    last: int
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def plain(value: Any) -> Any:
    """Return data in the form that every database returns: no NUL, lone surrogates, integral floats or NaN."""
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
    """Return a time in canonical form: UTC with six decimals."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def covered(link: ChainEntry) -> dict[str, Any]:
    """Return the content that the hash covers."""
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
    """Return an entry from its canonical form with hash.

    Raises:
        ValueError, KeyError, TypeError: it is none.
    """
    return ChainEntry(**{**values, "at": datetime.strptime(values["at"], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)})


def canonical(link: ChainEntry, sequence: int | None = None) -> bytes:
    """Return the canonical form:

    JSON with sorted keys, without spaces, in ASCII. ``sequence`` replaces the entry's number.
    """
    values = covered(link)
    if sequence is not None:
        values["sequence"] = sequence
    return json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def hash_of(link: ChainEntry, sequence: int | None = None) -> str:
    """Return the SHA-256 of the canonical form in hexadecimal."""
    return hashlib.sha256(canonical(link, sequence)).hexdigest()


def digest(value: Any) -> str:
    """Return the SHA-256 of plain data in canonical form."""
    text = json.dumps(plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(slots=True)
class Verification:
    """Verify a log in one pass with little memory.

    Attributes:
        start: the predecessor of the first entry.
        witnesses: exported heads, hash by number.
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
        """Return the last seen entry."""
        return ChainHead(self._number, self._last.hash) if self._last else self.start

    def see(self, link: ChainEntry) -> None:
        """Check the next stored entry."""
        self.count += 1
        number = self._true_number(link)
        if number is None:
            number = link.sequence + self._shift
            self._find(Tampering.CHANGED, number, f"entry {number} does not match its hash")
            self._place(link, number, is_sure=False)
            return
        self._shift = number - link.sequence
        self._place(link, number, is_sure=True)

    def end(self, head: ChainHead | None = None) -> list[ChainFinding]:
        """Compare the end with the stored head, and return all findings by entry."""
        for first, last in self._missing:
            which = f"entry {first} is" if first == last else f"entries {first} to {last} are"
            self._find(Tampering.REMOVED, first, f"{which} missing", last)
        if head is not None:
            self._compare_with(head)
        for number, value in self.witnesses.items():
            if number > self._number and (head is None or number > head.sequence):
                text = f"the log ends with entry {self._number}, but the head of entry {number} ({value[:12]}…) was exported"
                self._find(Tampering.TRUNCATED, self._number + 1, text, number)
        return sorted(self.findings, key=lambda item: (item.first, item.kind))

    def _true_number(self, link: ChainEntry) -> int | None:
        """Return the original number of the entry; ``None`` if its hash matches no number nearby."""
        if hash_of(link) == link.hash:
            return link.sequence
        offsets = [self._shift]
        if len(self.findings) < MOST_FINDINGS:
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
        """Check an entry with an old number: it was moved, or it is a second one."""
        for place, (first, last) in enumerate(self._missing):
            if first <= number <= last:
                self._missing[place : place + 1] = [
                    item for item in ((first, number - 1), (number + 1, last)) if item[0] <= item[1]
                ]
                if is_sure:
                    self._find(Tampering.REORDERED, number, f"entry {number} comes after entry {self._number}")
                return
        if number == self._number and self._last is not None and self._twin is None:
            # The next entry decides which of the two is genuine: it has its hash.
            self._twin = link
            return
        self._find(Tampering.INSERTED, number, f"there is a second entry {number}")

    def _link(self, link: ChainEntry, number: int, *, is_sure: bool) -> None:
        """Compare an entry with its predecessor."""
        before = self._last.hash if self._last else self.start.hash
        if self._twin is not None and self._last is not None:
            text = f"there is a second entry {self._number}"
            self._find(Tampering.INSERTED, self._number, f"{text}, whose hash the next entry does not have")
            if link.previous == self._twin.hash:
                return
        if link.previous == before or not is_sure:
            return
        if self._last is None:
            text = f"entry {number} does not follow {'the archived entries' if self.start.sequence else 'the start of the log'}"
            self._find(Tampering.CHANGED, number, text)
        elif link.previous == self._last.previous:
            text = f"entry {self._number} was inserted: entry {number} follows its predecessor"
            self._find(Tampering.INSERTED, self._number, text)
        elif self._is_sure:
            text = f"entry {self._number} was replaced after entry {number} was written"
            self._find(Tampering.CHANGED, self._number, text)

    def _witness(self, link: ChainEntry, number: int) -> None:
        kept = self.witnesses.get(number)
        if kept is not None and kept != link.hash:
            text = f"entry {number} does not match its exported head: this entry or an earlier one was rewritten"
            self._find(Tampering.CHANGED, number, text)

    def _compare_with(self, head: ChainHead) -> None:
        ours = self.head
        if head.sequence > ours.sequence:
            text = f"the log ends with entry {ours.sequence}, but its head says {head.sequence}"
            self._find(Tampering.TRUNCATED, ours.sequence + 1, text, head.sequence)
        elif head.sequence < ours.sequence:
            text = f"the log continues to entry {ours.sequence}, but its head says {head.sequence}"
            self._find(Tampering.INSERTED, head.sequence + 1, text, ours.sequence)
        elif self._twin is not None:
            self._find(Tampering.INSERTED, ours.sequence, f"there is a second entry {ours.sequence}")
        elif head.hash != ours.hash and self._is_sure:
            text = f"the last entry, {ours.sequence}, does not match the head"
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
    """Return the evidence of tampering with a log; empty if it is unchanged.

    Args:
        links: the entries in stored order.
        head: the stored head.
        start: the predecessor of the first entry; by default the start of the log.
        witnesses: exported heads, hash by number.
    """
    run = Verification(start or ChainHead(), witnesses or {})
    for link in links:
        run.see(link)
    return run.end(head)


def read_heads(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield the heads in a file: lines that end with a number and a hash. Other lines are ignored."""
    for line in lines:
        words = line.split()
        if len(words) >= 2 and words[-2].isdigit() and len(words[-1]) == len(GENESIS):
            yield int(words[-2]), words[-1]
