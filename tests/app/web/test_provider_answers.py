"""Logins with an OpenID Connect provider that is down, broken or hostile: it answers whatever a test wants."""

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from django.contrib.auth.models import User
from django.test import Client
from jwt.algorithms import RSAAlgorithm

from dbops.models import AuditEntry, LoginSession
from dbops.operations import login_limits
from dbops.security.permissions import group_of
from tests.app.web.provider_logins import PASSWORD, authorization_url, configure, last

pytestmark = pytest.mark.django_db


class Hostile:
    """A provider whose answers a test chooses."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.answers: dict[str, Any] = {}
        self.claims: dict[str, Any] = {}
        self.more: dict[str, Any] = {}
        self.nonce = ""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                content = outer.content(self.path)
                self.send_response(200 if content is not None else 404)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(content or b"")

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.do_GET()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def content(self, path: str) -> bytes | None:
        answer = {**self.usual(), **self.answers}.get(path)
        return answer if isinstance(answer, bytes | None) else json.dumps(answer).encode()

    def usual(self) -> dict[str, Any]:
        key = json.loads(RSAAlgorithm.to_jwk(self.key.public_key())) | {"kid": "one", "alg": "RS256"}
        return {
            "/.well-known/openid-configuration": {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
                "userinfo_endpoint": f"{self.issuer}/userinfo",
            },
            "/keys": {"keys": [key]},
            "/token": {"access_token": "x", "token_type": "Bearer", "id_token": self.token()},
            "/userinfo": {"sub": "s1", "preferred_username": "mallory", "groups": ["dba-team"]} | self.more,
        }

    def sign(self, claims: dict[str, Any]) -> str:
        return jwt.encode(claims, self.key, "RS256", {"kid": "one"})

    def token(self) -> str:
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": "dbops", "sub": "s1", "iat": now, "exp": now + 300, "nonce": self.nonce}
        return self.sign(claims | self.claims)

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def hostile(settings: Any) -> Iterator[Hostile]:
    found = Hostile()
    configure(settings, found.issuer, "dbops", "the secret of the client")
    settings.SOCIALACCOUNT_REQUESTS_TIMEOUT = 20
    yield found
    found.stop()


def come_back(hostile: Hostile, extra: str = "code=c") -> Any:
    client = Client()
    sent = parse_qs(urlsplit(authorization_url(client)).query)
    state, hostile.nonce = sent["state"][0], sent["nonce"][0]
    return client.get(f"/login/oidc/callback/?{extra}&state={state}")


def code_of(answer: Any) -> tuple[int, str]:
    assert not User.objects.exists()
    assert not LoginSession.objects.exists()
    return answer.status_code, answer.context["error"]["code"]


PROVIDER_FAILED = (502, "login.provider")
CLAIMS = (403, "login.claims")


def test_usual_answers_of_the_played_provider_log_in(hostile: Hostile) -> None:
    assert come_back(hostile).status_code == 302
    assert User.objects.get().username == "mallory"


def test_provider_that_is_down_is_named_and_local_accounts_work(hostile: Hostile, olga: User) -> None:
    hostile.server.shutdown()
    hostile.server.server_close()
    answer = Client().post("/login/oidc/")
    assert (answer.status_code, answer.context["error"]["code"]) == PROVIDER_FAILED
    assert answer.context["error"]["who"] == "host"
    local = Client()
    assert local.post("/login/", {"username": "olga", "password": PASSWORD}).status_code == 302
    assert local.get("/audit/").status_code == 200


def test_provider_that_goes_down_during_a_login_is_named(hostile: Hostile) -> None:
    client = Client()
    state = parse_qs(urlsplit(authorization_url(client)).query)["state"][0]
    hostile.server.shutdown()
    hostile.server.server_close()
    assert code_of(client.get(f"/login/oidc/callback/?code=c&state={state}")) == PROVIDER_FAILED


HUGE = b'{"a": "' + b"x" * 3_000_000 + b'"}'


@pytest.mark.parametrize("answer", [b"", b"no json", b"[]", b"null", b'"text"', HUGE, b"[" * 100_000, {}, None])
@pytest.mark.parametrize("path", ["/token", "/userinfo", "/keys"])
def test_broken_answers_are_failures_of_the_provider(hostile: Hostile, path: str, answer: Any) -> None:
    hostile.answers[path] = answer
    assert code_of(come_back(hostile)) == PROVIDER_FAILED


def test_valid_answer_that_is_too_large_is_not_read_to_its_end(hostile: Hostile) -> None:
    hostile.more = {"padding": "x" * 3_000_000}
    assert code_of(come_back(hostile)) == PROVIDER_FAILED


@pytest.mark.parametrize("answer", [b"", b"no json", b"[]", b"null", HUGE, b"[" * 100_000, {}, None])
def test_broken_configuration_is_a_failure_of_the_provider(hostile: Hostile, answer: Any) -> None:
    hostile.answers["/.well-known/openid-configuration"] = answer
    assert code_of(Client().post("/login/oidc/")) == PROVIDER_FAILED


@pytest.mark.parametrize(
    "changed",
    [
        {"issuer": "https://other.example.org"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": "http://evil.example/"},
        {"token_endpoint": "http://evil.example/token"},
        {"token_endpoint": ["x"]},
        {"jwks_uri": "file:///etc/passwd"},
        {"userinfo_endpoint": None},
    ],
)
def test_configuration_with_unsafe_addresses_is_refused(hostile: Hostile, changed: dict[str, Any]) -> None:
    name = "/.well-known/openid-configuration"
    hostile.answers[name] = hostile.usual()[name] | changed
    assert code_of(Client().post("/login/oidc/")) == PROVIDER_FAILED


@pytest.mark.parametrize(
    "changed",
    [
        {"aud": "another client"},
        {"iss": "https://other.example.org"},
        {"exp": 1},
        {"exp": "x"},
        {"sub": "s2"},
        {"sub": None},
        {"nonce": "x"},
    ],
)
def test_token_for_others_is_refused(hostile: Hostile, changed: dict[str, Any]) -> None:
    hostile.claims = changed
    assert code_of(come_back(hostile)) == PROVIDER_FAILED


def test_token_with_a_foreign_signature_is_refused(hostile: Hostile) -> None:
    """Also over a connection to the right provider, where the standard would allow to skip the check."""
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    hostile.sign = lambda claims: jwt.encode(claims, other, "RS256", {"kid": "one"})
    assert code_of(come_back(hostile)) == PROVIDER_FAILED


@pytest.mark.parametrize("algorithm", ["none", "HS256"])
def test_token_without_a_real_signature_is_refused(hostile: Hostile, algorithm: str) -> None:
    key = None if algorithm == "none" else "the secret of the client, as a key of 32 bytes"
    hostile.sign = lambda claims: jwt.encode(claims, key, algorithm, {"kid": "one"})
    assert code_of(come_back(hostile)) == PROVIDER_FAILED


@pytest.mark.parametrize(
    "claims",
    [
        {"preferred_username": None},
        {"preferred_username": ["mallory"]},
        {"preferred_username": {"a": 1}},
        {"preferred_username": ""},
        {"preferred_username": "x" * 151},
        {"preferred_username": "x" * 500_000},
        {"preferred_username": "mal\nlory"},
        {"preferred_username": "mal\u202elory"},
        {"preferred_username": "mallory\x00"},
        {"preferred_username": "<script>alert(1)</script>"},
        {"preferred_username": "dbops"},
        {"preferred_username": "cli-root"},
        {"groups": 7},
        {"groups": {"dba-team": True}},
        {"groups": ["dba-team", 7]},
        {"groups": ["dba-team", None]},
        {"groups": ["x"] * 2001},
        {"groups": ["dba-team", "x" * 256]},
    ],
)
def test_hostile_claims_are_refused_with_a_clear_page(hostile: Hostile, claims: dict[str, Any]) -> None:
    hostile.more = claims
    answer = come_back(hostile)
    assert code_of(answer) == CLAIMS
    assert "<script>alert" not in answer.content.decode()
    assert len(answer.content) < 50_000
    assert last("login.refused").detail == {"code": "login.claims"}


@pytest.mark.parametrize("subject", ["", "x" * 256, "a\x1b[31m", 7])
def test_hostile_subject_is_refused(hostile: Hostile, subject: Any) -> None:
    hostile.more, hostile.claims = {"sub": subject}, {"sub": subject}
    assert code_of(come_back(hostile))[0] in (403, 502)


def test_groups_can_be_one_text_or_below_a_path(hostile: Hostile, settings: Any) -> None:
    settings.OIDC_GROUPS_CLAIM = "realm_access.roles"
    hostile.more = {"groups": ["admins"], "realm_access": {"roles": "auditors"}}
    assert come_back(hostile).status_code == 302
    assert group_of(User.objects.get()) == "viewer"
    assert not User.objects.get().is_superuser


def test_missing_groups_claim_means_no_group(hostile: Hostile) -> None:
    hostile.more = {"groups": None}
    assert code_of(come_back(hostile)) == (403, "login.no_group")


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("error=access_denied", "login.cancelled"),
        ("error=<script>alert(1)</script>", "login.cancelled"),
        ("x=1", "login.cancelled"),
    ],
)
def test_refusal_of_the_provider_is_named(hostile: Hostile, said: str, code: str) -> None:
    answer = come_back(hostile, said)
    assert code_of(answer) == (403, code)
    assert "<script>alert" not in answer.content.decode()


def test_address_of_the_provider_cannot_leave_its_attribute(hostile: Hostile) -> None:
    name = "/.well-known/openid-configuration"
    address = hostile.issuer + '/a"><script>alert(1)</script>'
    hostile.answers[name] = hostile.usual()[name] | {"authorization_endpoint": address}
    assert "<script>alert" not in Client().post("/login/oidc/").content.decode()


def test_no_token_or_secret_reaches_the_log(hostile: Hostile, caplog: pytest.LogCaptureFixture) -> None:
    hostile.answers["/token"] = {"error": "invalid_grant", "hint": "SECRET-IN-ANSWER"}
    assert code_of(come_back(hostile)) == PROVIDER_FAILED
    assert "SECRET-IN-ANSWER" not in caplog.text
    assert caplog.records


@pytest.mark.parametrize("path", ["/login/oidc/", "/login/passkey/"])
def test_one_address_cannot_begin_any_number_of_logins(
    hostile: Hostile, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login_limits, "LOGIN_START", replace(login_limits.LOGIN_START, most=3))
    client, other = Client(REMOTE_ADDR="192.0.2.1"), Client(REMOTE_ADDR="192.0.2.2")
    for _ in range(3):
        assert client.post(path).status_code in (200, 302)
    answers = [client.post(path) for _ in range(2)]
    assert [(answer.status_code, answer.context["error"]["code"]) for answer in answers] == [
        (429, "login.too_many")
    ] * 2
    assert AuditEntry.objects.filter(action="login.blocked").count() == 1
    assert other.post(path).status_code in (200, 302)


def test_without_a_provider_there_is_nothing(db: None, settings: Any) -> None:
    settings.OIDC_ISSUER = ""
    assert Client().post("/login/oidc/").status_code == 404
    assert Client().get("/login/oidc/callback/?code=c&state=s").status_code == 404
    assert Client().get("/login/").context["provider"] == ""
