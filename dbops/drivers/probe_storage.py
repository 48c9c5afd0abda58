"""Parse what the probe reads of the storage below a data directory (``inspect/storage.sh``). All of it is text of others."""

from collections.abc import Iterator, Mapping

from dbops.engine.facts.storage import StorageAnswers, StorageFacts, StorageLayer

SECTOR_BYTES = 512
MAXIMUM_LAYERS = 32
TEXT_CHARACTERS = 100
KINDS = ("disk", "partition", "dm", "md", "loop")


def parse_storage(records: Mapping[str, str]) -> StorageFacts | None:
    """Return the storage, ``None`` if it was not read. Unknown values are ``None``."""
    words = records.get("datadir.storage", "").split()
    if len(words) != 5:
        return None
    filesystem, block, device, limit, turns = words
    lines = [_split(line) for line in records.get("datadir.layers", "").split("\n")]
    layers = _layers(lines)
    return StorageFacts(
        filesystem=filesystem,
        block_bytes=number(block) or 0,
        device=device,
        atomic_bytes=number(limit),
        turns={"0": False, "1": True}.get(turns),
        layers=layers,
        machine=tuple(dict.fromkeys(value for word, value in lines if word == "dmi" and value))[:3],
        is_virtual=("machine", "virtual") in lines,
        is_container=("machine", "container") in lines,
        answers=_answers(records.get("datadir.answers"), layers or ()),
    )


def _split(line: str) -> tuple[str, str]:
    word, _, value = line.partition(" ")
    return word, "".join(letter for letter in value if letter.isprintable()).strip()[:TEXT_CHARACTERS]


def _layers(lines: list[tuple[str, str]]) -> tuple[StorageLayer, ...] | None:
    """Return the layers, ``None`` if not all were read: a reading that was cut does not show what is below."""
    if lines[-1] != ("whole", "") or ("cut", "") in lines:
        return None
    found = tuple(_each(lines))
    return found if len(found) <= MAXIMUM_LAYERS else None


def _each(lines: list[tuple[str, str]]) -> Iterator[StorageLayer]:
    """Yield the layers: each begins with its own line, and a device below two others counts once."""
    groups: list[tuple[str, list[tuple[str, str]]]] = []
    for word, value in lines:
        if word == "layer":
            groups.append((value, []))
        elif groups:
            groups[-1][1].append((word, value))
    seen = set()
    for heading, values in groups:
        kind, _, name = heading.partition(" ")
        if kind not in KINDS or name in seen:
            continue
        seen.add(name)
        found = dict(reversed(values))  # the first value of a word counts
        start = number(found.get("start"))
        yield StorageLayer(
            name=name,
            kind=kind,
            atomic_bytes=number(found.get("atomic")),
            logical_bytes=number(found.get("logical")),
            start_bytes=None if start is None else start * SECTOR_BYTES,
            model=" ".join(value for word, value in values if word == "model")[:TEXT_CHARACTERS],
            identity=found.get("id", ""),
        )


def _answers(text: str | None, layers: tuple[StorageLayer, ...]) -> StorageAnswers | None:
    if text is None:
        return None
    found = dict(_split(line) for line in text.splitlines())
    # AWUPF counts logical blocks and begins at 0: https://nvmexpress.org/specification/nvm-express-base-specification/
    logical = {item.name: item.logical_bytes for item in layers if item.kind == "disk" and item.name.startswith("nvme")}
    units = {}
    for word, value in map(_split, text.splitlines()):
        blocks, _, name = value.partition(" ")
        if word == "awupf" and (count := number(blocks)) is not None and (size := logical.get(name)):
            units[name] = (count + 1) * size
    return StorageAnswers(
        cluster_bytes=number(found.get("cluster")) or number(found.get("block")),
        record_bytes=number(found.get("record")),
        # a device that did not answer can be the weakest
        nvme_atomic_bytes=min(units.values(), default=None) if units.keys() == logical.keys() else None,
    )


def number(text: str | None) -> int | None:
    """Return a number of at most 15 digits, else ``None``."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= 15 else None
