"""Read YAML with line numbers, and collect all errors."""

import difflib
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import yaml

from dbops.engine.phrases import Phrase, phrase

Plain = TypeVar("Plain", str, int, bool)

MAXIMUM_CHARACTERS = 2_000_000
MAXIMUM_DEPTH = 12
#: keys, values and their groups; a fleet of a thousand clusters has fewer than 100,000
MAXIMUM_NODES = 250_000
MAXIMUM_ERRORS = 500
#: libyaml is ten times faster than Python, and the file may come from a browser.
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
TEXT, NOTHING = phrase("text"), phrase("nothing")
MAPPING, LIST = phrase("a mapping"), phrase("a list")
KINDS: dict[type, Phrase] = {str: TEXT, int: phrase("a whole number"), bool: phrase("true or false")}
TAGS = {
    "tag:yaml.org,2002:str": TEXT,
    "tag:yaml.org,2002:int": phrase("a number"),
    "tag:yaml.org,2002:float": phrase("a number"),
    "tag:yaml.org,2002:bool": phrase("true or false"),
    "tag:yaml.org,2002:null": NOTHING,
    "tag:yaml.org,2002:timestamp": phrase("a date"),
    "tag:yaml.org,2002:map": MAPPING,
    "tag:yaml.org,2002:seq": LIST,
}
BOOLEANS: dict[str, Any] = yaml.constructor.SafeConstructor.bool_values
DECIMAL = re.compile(r"-?(0|[1-9][0-9]{0,17})")


@dataclass(frozen=True, slots=True, order=True)
class FileError:
    """An error and its place. ``line`` counts from 1; ``path`` is for example ``clusters[0].instances[2].role``."""

    line: int
    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.line}: {self.path}: {self.text}" if self.path else f"{self.line}: {self.text}"


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in the file."""

    line: int
    path: str


class TooManyErrors(Exception):  # noqa: N818 - it is the answer, not a fault
    """The file has more errors than anyone reads: reading ends."""


class Errors:
    """Collect errors without duplicates, up to ``MAXIMUM_ERRORS``."""

    def __init__(self) -> None:
        self._found: dict[FileError, None] = {}

    def add(self, spot: Spot, text: str) -> None:
        self._found[FileError(spot.line, spot.path, text)] = None
        if len(self._found) == MAXIMUM_ERRORS:
            text = phrase("the file has {most} errors or more; the rest is not shown", most=MAXIMUM_ERRORS)
            self._found[FileError(spot.line, "", text)] = None
            raise TooManyErrors

    def __len__(self) -> int:
        return len(self._found)

    def sorted(self) -> list[FileError]:
        return sorted(self._found)


class Section:
    """A mapping of the file. Its constructor reports unknown and repeated keys."""

    def __init__(self, node: yaml.MappingNode, spot: Spot, known: Collection[str], errors: Errors) -> None:
        self.spot = spot
        self.errors = errors
        self._nodes: dict[str, yaml.Node] = {}
        self._lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            self._add(key_node, value_node, known)

    def _add(self, key_node: yaml.Node, value_node: yaml.Node, known: Collection[str]) -> None:
        line = key_node.start_mark.line + 1
        key = key_node.value if isinstance(key_node, yaml.ScalarNode) else "?"
        spot = Spot(line, self.spot.path)
        if key in self._nodes:
            text = phrase("the key {key} is repeated; first on line {line}", key=repr(key), line=self._lines[key])
            self.errors.add(spot, text)
        elif key == "<<":
            self.errors.add(spot, phrase("merge keys (<<) are not supported: write each key"))
        elif key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = (
                phrase("did you mean {near}?", near=repr(near[0]))
                if near
                else phrase("known here: {keys}", keys=", ".join(sorted(known)))
            )
            self.errors.add(spot, phrase("unknown key {key}; {hint}", key=repr(key), hint=hint))
        else:
            self._nodes[key], self._lines[key] = value_node, line

    def __contains__(self, key: str) -> bool:
        return key in self._nodes

    def is_empty(self, key: str) -> bool:
        """Whether a key has no value (``key:`` or ``key: null``)."""
        node = self._nodes.get(key)
        return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"

    def at(self, key: str) -> Spot:
        """Return the place of a key, or of the section if the key is missing."""
        path = f"{self.spot.path}.{key}" if self.spot.path else key
        return Spot(self._lines.get(key, self.spot.line), path)

    def value(self, key: str, kind: type[Plain]) -> Plain | None:
        """Return a plain value; ``None`` if the key is missing or its value has another type, which is an error."""
        node = self._nodes.get(key)
        if node is None:
            return None
        if isinstance(node, yaml.ScalarNode) and node.tag == f"tag:yaml.org,2002:{kind.__name__}":
            return self._plain(key, node.value, kind)
        self._wrong_kind(self.at(key), node, KINDS[kind], quotable=kind is str)
        return None

    def _plain(self, key: str, value: str, kind: type[Plain]) -> Plain | None:
        if kind is bool:
            found: Plain = BOOLEANS[value.lower()]
            return found
        if kind is int and not DECIMAL.fullmatch(value):  # YAML reads 022 as 18 and 1:30 as 90
            self.errors.add(self.at(key), phrase("write this as a decimal number, without leading zeros"))
            return None
        return kind(value)

    def section(self, key: str, known: Collection[str]) -> "Section | None":
        """Return a nested mapping, ``None`` if it is missing or has another type."""
        node = self._nodes.get(key)
        return None if node is None else self._section_of(node, self.at(key), known)

    def sections(self, key: str, known: Collection[str]) -> "Iterator[Section]":
        """Iterate over a list of mappings."""
        for spot, node in self._items(key):
            if section := self._section_of(node, spot, known):
                yield section

    def texts(self, key: str) -> list[tuple[Spot, str]]:
        """Return a list of strings with their places."""
        found = []
        for spot, node in self._items(key):
            if isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:str":
                found.append((spot, node.value))
            else:
                self._wrong_kind(spot, node, TEXT, quotable=True)
        return found

    def _items(self, key: str) -> Iterator[tuple[Spot, yaml.Node]]:
        node = self._nodes.get(key)
        if isinstance(node, yaml.SequenceNode):
            path = self.at(key).path
            for number, item in enumerate(node.value):
                yield Spot(item.start_mark.line + 1, f"{path}[{number}]"), item
        elif node is not None:
            self._wrong_kind(self.at(key), node, LIST)

    def _section_of(self, node: yaml.Node, spot: Spot, known: Collection[str]) -> "Section | None":
        if isinstance(node, yaml.MappingNode):
            return Section(node, spot, known, self.errors)
        self._wrong_kind(spot, node, MAPPING)
        return None

    def _wrong_kind(self, spot: Spot, node: yaml.Node, wanted: Phrase, *, quotable: bool = False) -> None:
        seen = TAGS.get(node.tag) or phrase("something tagged {tag}", tag=node.tag)
        plain = isinstance(node, yaml.ScalarNode)
        if seen == NOTHING:
            text = phrase("this must be {wanted}, not {seen}; set a value or omit the key", wanted=wanted, seen=seen)
        elif quotable and plain and seen in TAGS.values():
            text = phrase("this must be {wanted}, not {seen}; put it in quotes", wanted=wanted, seen=seen)
        else:
            text = phrase("this must be {wanted}, not {seen}", wanted=wanted, seen=seen)
        self.errors.add(spot, text)


def read_document(text: str, known: Collection[str], errors: Errors) -> Section | None:
    """Return the file's top mapping; ``None`` if the file is not YAML, which is an error."""
    if len(text) > MAXIMUM_CHARACTERS:
        errors.add(Spot(1, ""), phrase("the file has more than {most} characters", most=f"{MAXIMUM_CHARACTERS:,}"))
        return None
    try:
        if not _is_plain(text, errors):
            return None
        node = yaml.compose(text, Loader=LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        text = phrase("this is not YAML: {problem}", problem=error.problem or error.context)
        errors.add(Spot(mark.line + 1 if mark else 1, ""), text)
        return None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, int(error.position)) + 1
        text = phrase("the character {character} is not allowed in YAML", character=repr(error.character))
        errors.add(Spot(line, ""), text)
        return None
    if not isinstance(node, yaml.MappingNode):
        errors.add(Spot(1, ""), phrase("the file must be a mapping that starts with 'version: 1'"))
        return None
    return Section(node, Spot(1, ""), known, errors)


def _is_plain(text: str, errors: Errors) -> bool:
    """Refuse aliases and deep nesting before building anything: both can use unlimited memory."""
    depth, plain, nodes = 0, True, 0
    for event in yaml.parse(text, Loader=LOADER):
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.AliasEvent):
            text = phrase("aliases (*{anchor}) are not supported: write the value", anchor=event.anchor)
            errors.add(Spot(line, ""), text)
            plain = False
        elif isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        nodes += isinstance(event, yaml.NodeEvent)
        if nodes > MAXIMUM_NODES:
            errors.add(Spot(line, ""), phrase("the file has more than {most} values", most=f"{MAXIMUM_NODES:,}"))
            return False
        if depth > MAXIMUM_DEPTH:
            errors.add(Spot(line, ""), phrase("this is nested too deeply for a fleet file"))
            return False
    return plain
