"""Wrong passwords and tokens are limited for each account and each address."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db.models import F
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from dbops.engine.errors import Refused
from dbops.models import AccessToken, AuditEntry, FailedAttempts
from dbops.operations import login_limits
from dbops.operations.accounts import check_password
from dbops.operations.login_limits import ACCOUNT, ACCOUNT_AT_ADDRESS, ADDRESS, TOKEN, network_of
from dbops.operations.tokens import CALENDAR, REPORT, make_token, token_of

RIGHT, WRONG = "correct horse battery", "a wrong password"


def log_in(password: str, name: str = "olga", address: str = "192.0.2.1") -> int:
    return Client(REMOTE_ADDR=address).post("/login/", {"username": name, "password": password}).status_code


def guess(times: int, **values: Any) -> list[int]:
    return [log_in(WRONG, **values) for _ in range(times)]


def test_right_password_is_refused_after_too_many_wrong_ones(olga: User) -> None:
    assert guess(ACCOUNT_AT_ADDRESS.most) == [200] * ACCOUNT_AT_ADDRESS.most
    answer = Client(REMOTE_ADDR="192.0.2.1").post("/login/", {"username": "olga", "password": RIGHT})
    assert answer.status_code == 429
    assert 0 < int(answer["Retry-After"]) <= ACCOUNT_AT_ADDRESS.window.total_seconds()
    assert "_auth_user_id" not in answer.wsgi_request.session
    assert guess(3) == [429] * 3


def test_limit_ends_with_its_window(olga: User) -> None:
    guess(ACCOUNT_AT_ADDRESS.most + 1)
    FailedAttempts.objects.update(since=timezone.now() - ACCOUNT_AT_ADDRESS.window)
    assert log_in(RIGHT) == 302


def test_limit_ends_when_its_beginning_is_far_in_the_future(olga: User) -> None:
    guess(ACCOUNT_AT_ADDRESS.most + 1)
    FailedAttempts.objects.update(since=timezone.now() + timedelta(days=30))
    assert log_in(RIGHT) == 302


def test_success_forgets_wrong_passwords(olga: User) -> None:
    for _ in range(3):
        guess(ACCOUNT_AT_ADDRESS.most - 1)
        assert log_in(RIGHT) == 302


def test_same_account_from_another_address_is_not_blocked(olga: User) -> None:
    guess(ACCOUNT_AT_ADDRESS.most + 1)
    assert log_in(RIGHT, address="192.0.2.2") == 302


def test_account_is_blocked_after_guesses_from_many_addresses(olga: User) -> None:
    guess(1)
    FailedAttempts.objects.filter(account=F("key")).update(count=ACCOUNT.most)
    assert log_in(RIGHT, address="192.0.2.99") == 429


def test_one_address_does_not_keep_an_account_out_elsewhere(olga: User) -> None:
    guess(ADDRESS.most + ACCOUNT.most)
    assert log_in(RIGHT, address="192.0.2.2") == 302


@pytest.mark.parametrize("spelling", [" olga", " " * 3000 + "olga", "olga\t", "\u3000olga", "\uff4flga"])
def test_other_spelling_of_a_name_shares_its_limit(olga: User, spelling: str) -> None:
    assert log_in(RIGHT, spelling) == 302
    guess(ACCOUNT_AT_ADDRESS.most)
    assert log_in(RIGHT, spelling) == 429
    assert AuditEntry.objects.get(action="login.blocked").actor == "olga"


def test_address_is_blocked_after_guesses_of_many_names(olga: User) -> None:
    guess(1, name="unknown")
    FailedAttempts.objects.filter(account="").update(count=ADDRESS.most)
    assert log_in(RIGHT) == 429
    assert log_in(RIGHT, address="192.0.2.2") == 302


def test_block_is_audited_once_with_the_known_name(olga: User) -> None:
    guess(ACCOUNT_AT_ADDRESS.most + 3)
    guess(ACCOUNT_AT_ADDRESS.most + 3, name="s3cret in the wrong field", address="192.0.2.3")
    found = AuditEntry.objects.filter(action="login.blocked").order_by("sequence")
    assert list(found.values_list("actor", "outcome")) == [("olga", "refused"), ("(no such account)", "refused")]
    assert AuditEntry.objects.filter(action="login.failed").count() == 2 * ACCOUNT_AT_ADDRESS.most
    assert not any("s3cret" in str(row) for row in FailedAttempts.objects.values())


def test_unblock_allows_the_account_again(olga: User) -> None:
    guess(ACCOUNT_AT_ADDRESS.most + 1)
    call_command("account", "unblock", "olga")
    assert log_in(RIGHT) == 302
    assert AuditEntry.objects.filter(action="account.unblocked", subject="olga").count() == 1


def test_wrong_tokens_are_limited_and_valid_ones_work(db: None) -> None:
    _, secret = make_token(actor="olga", name="feed", purpose=CALENDAR, cluster=None)
    feed, client = reverse("calendar-feed"), Client(REMOTE_ADDR="192.0.2.1")
    assert client.get(f"{feed}?token=x").status_code == 403
    FailedAttempts.objects.update(count=TOKEN.most)
    assert client.get(f"{feed}?token=x").status_code == 429
    assert client.get(f"{feed}?token={secret}").status_code == 200
    assert AccessToken.objects.get().last_used_at is not None
    assert AuditEntry.objects.filter(action="token.blocked").count() == 1
    with pytest.raises(Refused) as refused:
        token_of(secret, REPORT)
    assert refused.value.code == "token.unknown"  # another address


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("", ""),
    ],
)
def test_network_of_an_address_is_what_a_client_can_choose_from(address: str, network: str) -> None:
    assert network_of(address) == network


def test_old_rows_are_removed(olga: User) -> None:
    guess(1)
    FailedAttempts.objects.update(since=timezone.now() - login_limits.KEPT - timedelta(minutes=1))
    guess(1, name="other", address="192.0.2.7")
    assert FailedAttempts.objects.count() == 3


@pytest.mark.parametrize("password", ["olgaolgaolga", "OlgaOLGAolga1", "olga-dbops-olga", "dbopsdbopsdbops"])
def test_password_of_little_more_than_the_name_is_refused(password: str) -> None:
    with pytest.raises(Refused) as refused:
        check_password(User(username="olga"), password, "Setting a password")
    assert refused.value.code == "account.invalid"


def test_password_with_the_name_and_enough_of_its_own_is_accepted() -> None:
    check_password(User(username="olga"), "olga rides a blue bicycle", "Setting a password")
