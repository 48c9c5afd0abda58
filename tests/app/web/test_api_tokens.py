"""Personal tokens of the API: made on one's own page, shown once, limited, revoked."""

import io
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.core.management import CommandError, call_command
from django.test import Client

from dbops.database import clock
from dbops.engine.errors import Refused
from dbops.models import AccessToken, AuditEntry, Cluster
from dbops.operations.api_tokens import make_api_token, revoke_api_token
from dbops.operations.tokens import API, METRICS, digest_of, make_token, token_of
from tests.app.factories import make_cluster, make_user

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"
TOKENS, NEW = "/account/tokens/", "/account/tokens/new/"
FORM = {"name": "ansible", "scope": "operate", "days": "30"}


@pytest.fixture(autouse=True)
def _no_requests_of_other_tests() -> None:
    cache.clear()


def logged_in(name: str = "olga", *, confirmed: bool = True) -> Client:
    client = Client()
    assert client.post("/login/", {"username": name, "password": PASSWORD}).status_code == 302
    if confirmed:
        assert client.post("/account/confirm/", {"password": PASSWORD, "next": NEW}).status_code == 302
    return client


def made(user: User, **changed: Any) -> tuple[AccessToken, str]:
    return make_api_token(
        **{"actor": user, "name": "ansible", "scope": "read", "clusters": None, "days": 30, **changed}
    )


def is_refused(secret: str) -> bool:
    with pytest.raises(Refused) as refused:
        token_of(secret, API)
    return refused.value.code == "token.unknown"


def root() -> User:
    user = make_user("root")
    user.is_superuser = True
    user.save()
    return user


def test_token_is_shown_once_and_stored_as_digest(olga: User) -> None:
    client = logged_in()
    answer = client.post(NEW, FORM)
    secret, token = answer.context["secret"], AccessToken.objects.get()
    assert answer.status_code == 200
    assert (token.digest, token.user, token.scope, token.purpose) == (digest_of(secret), olga, "operate", "api")
    assert token_of(secret, API) == token
    assert secret not in client.get(TOKENS).content.decode()
    entry = AuditEntry.objects.get(action="token.made")
    assert (entry.actor, entry.subject, secret in str(entry.detail)) == ("olga", "ansible", False)


def test_new_token_needs_the_password_again(olga: User) -> None:
    client = logged_in(confirmed=False)
    for answer in (client.get(NEW), client.post(NEW, FORM)):
        assert (answer.status_code, answer.headers["Location"].partition("?")[0]) == (302, "/account/confirm/")
    assert not AccessToken.objects.exists()


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"days": "367"}, "days"),
        ({"days": "0"}, "days"),
        ({"days": ""}, "days"),
        ({"scope": "admin"}, "scope"),
        ({"name": "a b"}, "name"),
        ({"name": "a\0b"}, "name"),
        ({"clusters": "nowhere"}, "clusters"),
    ],
)
def test_invalid_token_is_refused(olga: User, changed: dict[str, str], field: str) -> None:
    answer = logged_in().post(NEW, FORM | changed)
    assert (answer.status_code, list(answer.context["form"].errors)) == (422, [field])
    assert not AccessToken.objects.exists()


def test_longest_expiry_is_a_setting(olga: User, settings: Any) -> None:
    settings.API_TOKEN_MAX_DAYS = 7
    assert logged_in().post(NEW, FORM | {"days": "8"}).status_code == 422
    with pytest.raises(Refused) as refused:
        made(olga, days=8)
    assert refused.value.code == "token.invalid"


def test_name_is_unique_across_accounts_and_stays_with_a_revoked_token(olga: User, victor: User) -> None:
    token, _ = made(victor)
    revoke_api_token(actor=victor, token=token)
    with pytest.raises(Refused) as refused:
        made(olga)
    assert refused.value.code == "token.invalid"


def test_account_without_access_makes_no_token(sam: User) -> None:
    assert logged_in("sam").post(NEW, FORM).status_code == 403
    with pytest.raises(Refused) as refused:
        made(sam)
    assert refused.value.code == "access.denied"


def test_token_ends_with_its_time_its_account_and_its_revocation(olga: User) -> None:
    token, secret = made(olga)
    AccessToken.objects.update(expires_at=clock.now() - timedelta(seconds=1))
    assert is_refused(secret)
    AccessToken.objects.update(expires_at=clock.now() + timedelta(days=1))
    assert token_of(secret, API) == token
    User.objects.filter(pk=olga.pk).update(is_active=False)
    assert is_refused(secret)
    User.objects.filter(pk=olga.pk).update(is_active=True)
    revoke_api_token(actor=olga, token=token)
    assert is_refused(secret)


def test_tokens_of_a_deleted_account_are_gone(olga: User) -> None:
    _, secret = made(olga)
    olga.delete()
    assert is_refused(secret)


def test_token_has_one_purpose(olga: User) -> None:
    _, secret = made(olga)
    _, other = make_token(actor="olga", name="prometheus", purpose=METRICS, cluster=None)
    assert is_refused(other)
    with pytest.raises(Refused):
        token_of(secret, METRICS)
    with pytest.raises(Refused):
        make_token(actor="olga", name="nobodys", purpose=API, cluster=None)


def test_last_use_is_noted(olga: User) -> None:
    _, secret = made(olga)
    assert AccessToken.objects.get().last_used_at is None
    token_of(secret, API)
    assert clock.now() - AccessToken.objects.get().last_used_at < timedelta(minutes=1)


def test_token_stays_limited_when_its_cluster_is_removed(olga: User) -> None:
    cluster = make_cluster()
    token, _ = made(olga, clusters=[cluster])
    assert (token.is_for_all_clusters, [one.pk for one in token.clusters.all()]) == (False, [cluster.pk])
    Cluster.objects.all().delete()
    token.refresh_from_db()
    assert (token.is_for_all_clusters, token.clusters.count()) == (False, 0)


def test_people_see_and_revoke_their_own_tokens_only(olga: User, victor: User) -> None:
    token, secret = made(victor)
    client = logged_in(confirmed=False)
    assert client.get(TOKENS).context["api_tokens"] == []
    assert client.get("/tokens/").context["api_tokens"] is None
    assert client.post(f"{TOKENS}{token.pk}/revoke/").status_code == 404
    assert client.post(f"/tokens/{token.pk}/revoke/").status_code == 404
    with pytest.raises(Refused):
        revoke_api_token(actor=olga, token=token)
    assert token_of(secret, API) == token
    assert logged_in("victor", confirmed=False).post(f"{TOKENS}{token.pk}/revoke/").status_code == 302
    assert is_refused(secret)


def test_superuser_sees_and_revokes_all(olga: User) -> None:
    token, secret = made(olga)
    root()
    client = logged_in("root", confirmed=False)
    assert client.get("/tokens/").context["api_tokens"] == [token]
    assert client.post(f"{TOKENS}{token.pk}/revoke/").status_code == 302
    assert is_refused(secret)
    entry = AuditEntry.objects.get(action="token.revoked")
    assert (entry.actor, entry.detail["account"]) == ("root", "olga")
    client.post(f"{TOKENS}{token.pk}/revoke/")  # the second click
    assert AuditEntry.objects.filter(action="token.revoked").count() == 1


def test_command_makes_and_lists_tokens(olga: User) -> None:
    make_cluster()
    name, out = Cluster.objects.get().name, io.StringIO()
    words = ["make", "cron", "--purpose", "api", "--as", "olga", "--scope", "operate", "--cluster", name]
    call_command("token", *words, stdout=out)
    token = token_of(out.getvalue().strip(), API)
    assert (token.user, token.scope, [one.name for one in token.clusters.all()]) == (olga, "operate", [name])
    call_command("token", "list", stdout=out)
    assert "operate as olga" in out.getvalue()
    with pytest.raises(CommandError):
        call_command("token", "make", "other", "--purpose", "api")
