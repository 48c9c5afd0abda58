"""Which stretches of the audit log need not be searched for a text: pure.

Each thousand entries have a signature: a bit for each part of three characters that one of their texts has (a Bloom filter of one
hash). A text that has a part whose bit is missing stands in none of them. It never hides an entry; it may offer some in vain.
"""

from collections.abc import Iterable
from zlib import crc32

#: Entries of a block, bits of its signature (2 kB), characters of a part.
ENTRIES = 1000
BITS = 1 << 14
LENGTH = 3


def block_of(sequence: int) -> int:
    """Return the number of the block that an entry is in; the first entry has number 1, the first block 0."""
    return (sequence - 1) // ENTRIES


def bounds_of(block: int) -> tuple[int, int]:
    """Return the numbers of the first and the last entry of a block."""
    return block * ENTRIES + 1, (block + 1) * ENTRIES


def ends_block(sequence: int) -> bool:
    return sequence % ENTRIES == 0


def signature_of(texts: Iterable[str]) -> bytes:
    """Return the signature of a block's texts. It is kept, so nothing here may change what it says."""
    return _bits(set(texts)).to_bytes(BITS // 8, "little")


def wanted_bits(text: str) -> int:
    """Return the bits that a block must have for a text to stand in it; 0 where the text is too short to tell."""
    return _bits({text})


def may_have(signature: bytes, wanted: int) -> bool:
    """Tell whether a text may stand in a block."""
    return int.from_bytes(signature, "little") & wanted == wanted


def _bits(texts: set[str]) -> int:
    parts = {text[start : start + LENGTH] for text in texts for start in range(len(text) - LENGTH + 1)}
    bits = 0
    for number in {crc32(part.encode()) % BITS for part in parts}:
        bits |= 1 << number
    return bits


def ranges_that_may_have(low: int, high: int, signatures: dict[int, bytes], wanted: int) -> list[tuple[int, int]]:
    """Return the stretches of entries, in rising order, in which a text may stand; neighbours are one stretch.

    Args:
        low, high: numbers of the first and the last entry asked about.
        signatures: by block; one that is not there (of the newest entries, mostly) may have everything.
        wanted: as from ``wanted_bits``.
    """
    found: list[tuple[int, int]] = []
    for block in range(block_of(low), block_of(high) + 1):
        signature = signatures.get(block)
        if signature is not None and not may_have(signature, wanted):
            continue
        first, last = bounds_of(block)
        first, last = max(first, low), min(last, high)
        if found and found[-1][1] == first - 1:
            first = found.pop()[0]
        found.append((first, last))
    return found
