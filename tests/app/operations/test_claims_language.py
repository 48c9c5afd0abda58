"""A problem of a claim appears in the language of the page."""

from typing import Any

import pytest
from django.utils import translation

from dbops.security.claims import read_claims
from dbops.web.templatetags.phrases import translated

GOOD: dict[str, Any] = {"sub": "1", "name": "olga", "groups": []}


@pytest.mark.parametrize(
    "bad", [{"sub": ""}, {"name": "a b"}, {"name": "a" * 999}, {"groups": 1}, {"groups": ["a"] * 9999}]
)
def test_problem_of_a_claim_is_translated(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))) as raised:
        read_claims(GOOD | bad, issuer="https://id.example", name_claim="name", groups_claim="groups")
    with translation.override("ja"):
        assert translated(raised.value.args[0]) != str(raised.value)
