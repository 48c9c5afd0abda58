"""Settings of logins: a wrong value ends the process, and never weakens a login."""

from collections.abc import Callable

import pytest

from dbops.security.login_settings import highest_role, read_groups, read_issuer, read_second_factor, require_provider


@pytest.mark.parametrize(
    "url", ["https://sso.example.org/realms/one", "http://localhost:5000/", "http://127.0.0.1", ""]
)
def test_issuer_is_kept_as_it_is_written(url: str) -> None:
    assert read_issuer(url) == url


@pytest.mark.parametrize(
    "url",
    [
        *("http://sso.example.org", "sso.example.org", "https://", "ftp://localhost", "javascript:alert(1)"),
        *("https://sso.example.org/?a=1", "https://sso.example.org/#a", "https://user:secret@sso.example.org"),
        "http://localhost.evil.example",
    ],
)
def test_issuer_without_tls_or_with_more_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="DBOPS_OIDC_ISSUER"):
        read_issuer(url)


def test_groups_are_pairs_whose_last_part_is_a_role() -> None:
    pairs = ["dba-team=operator", "cn=admins,ou=x=superuser", " a b = viewer "]
    assert read_groups(pairs) == {"dba-team": "operator", "cn=admins,ou=x": "superuser", "a b": "viewer"}


@pytest.mark.parametrize("pair", ["dba-team", "dba-team=", "=operator", "dba-team=root", "dba-team=Operator"])
def test_wrong_pair_is_refused(pair: str) -> None:
    with pytest.raises(ValueError, match="DBOPS_OIDC_GROUPS"):
        read_groups([pair])


def test_second_factor_knows_roles_only() -> None:
    assert read_second_factor(["operator", "superuser"]) == {"operator", "superuser"}
    with pytest.raises(ValueError, match="DBOPS_SECOND_FACTOR_GROUPS"):
        read_second_factor(["operators"])


@pytest.mark.parametrize(
    "check",
    [
        lambda: require_provider("https://a.example", "", {"a": "viewer"}, ""),
        lambda: require_provider("https://a.example", "dbops", {}, ""),
        lambda: require_provider("", "", {}, "rescue"),
    ],
)
def test_settings_that_need_each_other_are_checked(check: Callable[[], None]) -> None:
    with pytest.raises(ValueError, match="DBOPS_"):
        check()


def test_highest_role_counts() -> None:
    assert highest_role(["viewer", "superuser", "operator"]) == "superuser"
    assert highest_role([]) == ""
