from hypothesis import given
from hypothesis import strategies as st

from dbops.engine.audit.search_index import (
    ENTRIES,
    block_of,
    bounds_of,
    ends_block,
    may_have,
    ranges_that_may_have,
    signature_of,
    wanted_bits,
)


@given(st.lists(st.text(max_size=60), max_size=20), st.data())
def test_a_text_that_is_there_is_never_ruled_out(texts: list[str], data: st.DataObject) -> None:
    signature = signature_of(texts)
    for text in texts:
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, len(text)))
        assert may_have(signature, wanted_bits(text[start:end]))


def test_a_text_that_is_not_there_mostly_is() -> None:
    signature = signature_of(f"the disk of replica-{number} is full" for number in range(1000))
    for text in ("haystack", "needle", "disconnected"):
        assert not may_have(signature, wanted_bits(text))


def test_a_text_of_two_characters_rules_nothing_out() -> None:
    assert wanted_bits("ab") == 0
    assert may_have(signature_of([]), wanted_bits("ab"))


def test_the_signature_is_what_it_was_when_it_was_kept() -> None:
    signature = signature_of(["abc", "abcd"])
    assert [bit for bit in range(len(signature) * 8) if signature[bit // 8] >> bit % 8 & 1] == [450, 7033]


def test_blocks_have_a_thousand_entries() -> None:
    for block in (0, 1, 77):
        first, last = bounds_of(block)
        assert last - first + 1 == ENTRIES
        assert block_of(first) == block_of(last) == block
        assert block_of(last + 1) == block + 1
        assert [number for number in range(first, last + 1) if ends_block(number)] == [last]


def test_stretches_leave_out_what_is_ruled_out_and_join_neighbours() -> None:
    has, has_not, wanted = signature_of(["needle"]), signature_of(["hay"]), wanted_bits("needle")
    signatures = {0: has_not, 1: has, 2: has, 4: has_not}
    assert ranges_that_may_have(1, 5500, signatures, wanted) == [(1001, 4000), (5001, 5500)]
    assert ranges_that_may_have(1500, 2500, signatures, wanted) == [(1500, 2500)]
    assert ranges_that_may_have(1, 1000, signatures, wanted) == []
