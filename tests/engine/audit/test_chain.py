"""The chain of the audit log: every change is found, and an untouched log passes."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbops.engine.audit.chain import (
    GENESIS,
    MOST_FINDINGS,
    ChainEntry,
    ChainHead,
    Tampering,
    canonical,
    hash_of,
    plain,
    read_heads,
    verify,
)

START = datetime(2026, 11, 22, 9, 0, tzinfo=UTC)
details = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def sealed(link: ChainEntry) -> ChainEntry:
    return replace(link, hash=hash_of(link))


def chain(count: int) -> list[ChainEntry]:
    made: list[ChainEntry] = []
    for number in range(1, count + 1):
        previous = made[-1].hash if made else GENESIS
        at = START + timedelta(seconds=number)
        detail = {"rebuild": number}
        made.append(
            sealed(ChainEntry(number, previous, "", at, "olga", "rebuild.requested", "replica-1", detail=detail))
        )
    return made


def head(links: list[ChainEntry]) -> ChainHead:
    return ChainHead(links[-1].sequence, links[-1].hash)


def found(links: list[ChainEntry], kept: ChainHead, **more: object) -> list[tuple[str, int, int]]:
    return [(item.kind.value, item.first, item.last) for item in verify(links, kept, **more)]  # type: ignore[arg-type]


def test_canonical_form_matches_the_document() -> None:
    at = datetime(2026, 11, 22, 10, 30, tzinfo=timezone(timedelta(hours=1)))
    link = ChainEntry(7, GENESIS, "", at, "olga", "a.b", "é", reason="why", detail={"b": 2.0, "a": [1.5, True, None]})
    assert canonical(link).decode() == (
        '{"action":"a.b","actor":"olga","address":"","at":"2026-11-22T09:30:00.000000Z","cluster":"",'
        '"detail":{"a":[1.5,true,null],"b":2},"instance":"","outcome":"","previous":"' + GENESIS + '",'
        '"reason":"why","request":"","sequence":7,"subject":"\\u00e9"}'
    )
    assert hash_of(link) == "1a20f17090955555f27de381e5b4da964134dae9bf32f27c9a989fd4ffdb6d0c"


@given(details)
def test_plain_is_stable_through_json(detail: object) -> None:
    """Plain data is the same after any way through JSON, and through one that writes numbers out."""
    once = plain(detail)
    assert plain(once) == once
    assert plain(json.loads(json.dumps(once))) == once
    json.dumps(once, ensure_ascii=False).encode()  # no lone surrogate


@given(st.integers(0, 30))
def test_verify_finds_nothing_in_an_untouched_log(count: int) -> None:
    links = chain(count)
    kept = head(links) if links else ChainHead()
    assert verify(links, kept, witnesses={item.sequence: item.hash for item in links}) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("at", START),
        ("actor", "mallory"),
        ("action", "rebuild.cancelled"),
        ("subject", "replica-2"),
        ("instance", "x"),
        ("cluster", "x"),
        ("outcome", "x"),
        ("reason", "x"),
        ("address", "192.0.2.1"),
        ("request", "x"),
        ("detail", {"rebuild": 99}),
        ("hash", "1" * 64),
        ("previous", "1" * 64),
    ],
)
def test_hash_covers_each_column(name: str, value: object) -> None:
    links = chain(5)
    kept = head(links)
    links[2] = replace(links[2], **{name: value})  # type: ignore[arg-type]
    assert found(links, kept) == [("changed", 3, 3)]


@given(st.integers(2, 20), st.data())
def test_verify_names_the_successor_when_a_changed_entry_has_a_new_hash(count: int, data: st.DataObject) -> None:
    links = chain(count)
    kept = head(links)
    place = data.draw(st.integers(0, count - 1))
    links[place] = sealed(replace(links[place], actor="mallory"))
    assert found(links, kept) == [("changed", place + 1, place + 1)]


@given(st.integers(3, 20), st.data(), st.booleans())
def test_verify_names_removed_entries(count: int, data: st.DataObject, is_renumbered: bool) -> None:
    links = chain(count)
    kept = head(links)
    first = data.draw(st.integers(1, count - 1))
    last = data.draw(st.integers(first, count - 1))
    del links[first - 1 : last]
    if is_renumbered:
        links = [replace(item, sequence=number) for number, item in enumerate(links, 1)]
    assert found(links, kept) == [("removed", first, last)]


@given(st.integers(2, 20), st.data(), st.booleans())
def test_verify_names_an_inserted_entry(count: int, data: st.DataObject, is_renumbered: bool) -> None:
    links = chain(count)
    kept = head(links)
    place = data.draw(st.integers(1, count - 1))
    before = links[place - 1]
    links.insert(place, sealed(replace(before, sequence=place + 1, previous=before.hash, actor="mallory")))
    if is_renumbered:
        links = [replace(item, sequence=number) for number, item in enumerate(links, 1)]
    assert found(links, kept) == [("inserted", place + 1, place + 1)]


@given(st.integers(2, 20), st.data(), st.booleans())
def test_verify_names_swapped_entries(count: int, data: st.DataObject, is_renumbered: bool) -> None:
    links = chain(count)
    kept = head(links)
    place = data.draw(st.integers(0, count - 2))
    links[place], links[place + 1] = links[place + 1], links[place]
    if is_renumbered:
        links = [replace(item, sequence=number) for number, item in enumerate(links, 1)]
    assert ("reordered", place + 1, place + 1) in found(links, kept)
    assert {kind for kind, *_ in found(links, kept)} == {"reordered"}


@given(st.integers(1, 20), st.data())
def test_verify_reports_truncated_when_the_head_is_past_the_tail(count: int, data: st.DataObject) -> None:
    links = chain(count)
    kept = head(links)
    cut = data.draw(st.integers(0, count - 1))
    assert found(links[:cut], kept) == [("truncated", cut + 1, count)]


def test_verify_needs_an_external_head_when_tail_and_head_are_cut() -> None:
    links = chain(9)
    cut = links[:5]
    assert found(cut, head(cut)) == []
    assert found(cut, head(cut), witnesses={3: links[2].hash, 8: links[7].hash}) == [("truncated", 6, 8)]


def test_verify_needs_an_external_head_when_the_log_is_rewritten() -> None:
    links = chain(6)
    forged: list[ChainEntry] = links[:3]
    for item in links[3:]:
        forged.append(sealed(replace(item, actor="mallory", previous=forged[-1].hash)))
    assert found(forged, head(forged)) == []
    assert found(forged, head(forged), witnesses={5: links[4].hash}) == [("changed", 5, 5)]


def test_verify_names_an_entry_after_the_head() -> None:
    links = chain(4)
    assert found(links, head(links[:3])) == [("inserted", 4, 4)]


def test_verify_accepts_a_part_from_an_anchor() -> None:
    links = chain(10)
    anchor = ChainHead(4, links[3].hash)
    assert found(links[4:], head(links), start=anchor) == []
    assert found(links[5:], head(links), start=anchor) == [("removed", 5, 5)]


def test_verify_reports_one_end_of_a_fork() -> None:
    links = chain(4)
    links.append(sealed(replace(links[3], actor="mallory")))
    assert found(links, head(links[:4])) == [("inserted", 4, 4)]


@given(st.integers(1, 12), st.data())
def test_verify_finds_every_reordering_and_removal(count: int, data: st.DataObject) -> None:
    links = chain(count)
    kept = head(links)
    order = data.draw(st.lists(st.integers(0, count - 1), max_size=count + 2))
    shuffled = [links[place] for place in order]
    assert (verify(shuffled, kept) == []) == (shuffled == links)


def test_verify_limits_its_findings() -> None:
    links = [replace(item, actor="mallory") for item in chain(MOST_FINDINGS + 5)]
    assert len(verify(links)) == MOST_FINDINGS


def test_read_heads_skips_prefixes_and_noise() -> None:
    lines = ["Nov 22 host dbops: audit head 12 " + "a" * 64, "noise", f"2026-11-22T09:00:00Z 3 {'b' * 64}\n", ""]
    assert list(read_heads(lines)) == [(12, "a" * 64), (3, "b" * 64)]


def test_kinds_are_words() -> None:
    assert {item.value for item in Tampering} == {
        "changed",
        "removed",
        "inserted",
        "reordered",
        "truncated",
        "unguarded",
        "unwritable",
    }
