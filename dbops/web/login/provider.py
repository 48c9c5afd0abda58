"""The OpenID Connect provider: django-allauth's client, with stricter checks of what the provider answers."""

import logging
import re
from typing import Any
from urllib.parse import urlsplit

import requests
import urllib3
from allauth.account.internal.stagekit import clear_login
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialLogin, SocialToken
from allauth.socialaccount.providers.base.constants import AuthError
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse

from dbops.engine.errors import Refused, RemoteFailure
from dbops.engine.phrases import phrase
from dbops.operations.provider_accounts import PROVIDER, admit
from dbops.security.claims import Identity, read_claims
from dbops.security.login_settings import LOOPBACK
from dbops.web.login.finish import refused_login

log = logging.getLogger(__name__)

ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")
LARGEST_ANSWER_BYTES = 1_000_000
#: What a broken or hostile answer can cause in code that expects the specification. Nothing is kept of it.
BROKEN = (
    *(OAuth2Error, requests.RequestException, KeyError, TypeError, ValueError, AttributeError, IndexError),
    *(OverflowError, RecursionError),
)
#: The standard's code in an answer of the token endpoint.
TOKEN_ERROR = re.compile(r'"error": ?"([a-z_]{1,40})"')
ERROR_CODE = re.compile(r"[a-z_]{1,40}")
OPERATION = phrase("Logging in with the provider")
NOBODY = "(unknown)"


class BoundedSession(requests.Session):
    """Read no more of an answer than a provider needs."""

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        response = super().send(request, **{**kwargs, "stream": True})
        try:
            content = response.raw.read(LARGEST_ANSWER_BYTES + 1, decode_content=True)
        except urllib3.exceptions.HTTPError as error:
            raise requests.ConnectionError(error) from error
        if len(content) > LARGEST_ANSWER_BYTES:
            response.close()
            raise requests.RequestException("the answer is too large")
        response._content, response._content_consumed = content, True
        return response


class OidcAdapter(OpenIDConnectOAuth2Adapter):
    """The authorization code flow. The signature of each token is checked, and both sources must name the same subject."""

    @property
    def openid_config(self) -> dict[str, Any]:
        if not hasattr(self, "_checked_config"):
            config = super().openid_config
            if config["issuer"] != settings.OIDC_ISSUER:
                raise OAuth2Error("the provider's issuer is not DBOPS_OIDC_ISSUER")
            names = [*ENDPOINTS, *(["userinfo_endpoint"] if "userinfo_endpoint" in config else [])]
            if not all(_is_safe(config[name]) for name in names):
                raise OAuth2Error("an address of the provider is not https://")
            self._checked_config: dict[str, Any] = config
        return self._checked_config

    def get_access_token_data(self, *args: Any, **kwargs: Any) -> Any:
        data = super().get_access_token_data(*args, **kwargs)
        self.did_fetch_access_token = False  # allauth trusts TLS then, and skips the signature
        return data

    def complete_login(self, request: HttpRequest, app: SocialApp, token: SocialToken, **kwargs: Any) -> SocialLogin:  # noqa: ARG002
        proven = self._decode_id_token(app, kwargs["response"]["id_token"])
        told: dict[str, Any] = {}
        if "userinfo_endpoint" in self.openid_config:
            told = self._fetch_user_info(token.token)
            if told["sub"] != proven["sub"]:
                raise OAuth2Error("the two answers are about different subjects")
        try:
            identity = read_claims(
                {**proven, **told},
                issuer=settings.OIDC_ISSUER,
                name_claim=settings.OIDC_NAME_CLAIM,
                groups_claim=settings.OIDC_GROUPS_CLAIM,
            )
        except ValueError as error:
            refusal = Refused("login.claims", OPERATION, cause=error.args[0])
            raise ImmediateHttpResponse(refused_login(self.request, refusal, actor=NOBODY)) from None
        account = SocialAccount(
            provider=PROVIDER,
            uid=identity.key,
            extra_data={"issuer": identity.issuer, "subject": identity.subject},
        )
        login = SocialLogin(user=User(username=identity.name), account=account)
        login.identity, login.nonce = identity, proven.get("nonce")
        return login


class ProviderAdapter(DefaultSocialAccountAdapter):
    """The one provider of the settings. People are admitted by their groups, and are never matched by address or name."""

    def list_apps(
        self, request: HttpRequest, provider: str | None = None, client_id: str | None = None
    ) -> list[SocialApp]:  # noqa: ARG002
        if not settings.OIDC_ISSUER or provider not in (None, PROVIDER):
            return []
        return [
            SocialApp(
                provider="openid_connect",
                provider_id=PROVIDER,
                name=settings.OIDC_NAME,
                client_id=settings.OIDC_CLIENT_ID,
                secret=settings.OIDC_CLIENT_SECRET,
                settings={
                    "server_url": f"{settings.OIDC_ISSUER.rstrip('/')}/.well-known/openid-configuration",
                    "oauth_pkce_enabled": True,
                    "scope": settings.OIDC_SCOPES,
                },
            )
        ]

    def get_provider(self, request: HttpRequest, provider: str, client_id: str | None = None) -> Any:
        found = super().get_provider(request, provider, client_id)
        found.oauth2_adapter_class = OidcAdapter
        return found

    def get_requests_session(self) -> requests.Session:
        session = BoundedSession()
        ask = session.request

        def request(*args: Any, **kwargs: Any) -> requests.Response:
            return ask(*args, **{"timeout": settings.SOCIALACCOUNT_REQUESTS_TIMEOUT, **kwargs})

        session.request = request  # type: ignore[method-assign]
        return session

    def authenticate_by_email(self, sociallogin: SocialLogin) -> None:  # noqa: ARG002
        """Match no account."""

    def is_open_for_signup(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:  # noqa: ARG002
        return False

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """Make the account of a first login, and follow the groups at each."""
        identity: Identity = sociallogin.identity
        if not sociallogin.nonce or sociallogin.nonce != sociallogin.state.get("nonce"):
            raise OAuth2Error("the token is not for this login")
        clear_login(request)  # of another way, whose second factor was awaited
        try:
            admit(identity)
        except Refused as error:
            raise ImmediateHttpResponse(refused_login(request, error, actor=identity.name)) from None
        if not sociallogin.is_existing:
            sociallogin.lookup()
        else:
            sociallogin.user.refresh_from_db()

    def on_authentication_error(
        self,
        request: HttpRequest,
        provider: Any,  # noqa: ARG002
        error: str | None = None,
        exception: Exception | None = None,
        extra_context: dict[str, Any] | None = None,
    ) -> None:
        """Show dbops's own page."""
        if exception is not None:
            raise ImmediateHttpResponse(provider_failed(request, exception))
        if "state_id" in (extra_context or {}):
            refusal = Refused("login.expired", OPERATION, cause=phrase("this browser has not begun this login"))
        else:
            said = request.GET.get("error", "")
            cause = (
                phrase("the provider answered {code}", code=said)
                if ERROR_CODE.fullmatch(said)
                else phrase("the provider answered an error")
            )
            refusal = Refused("login.cancelled", OPERATION, cause=cause)
            if error != AuthError.CANCELLED:
                log.warning("the provider ended a login: %s", cause)
        raise ImmediateHttpResponse(refused_login(request, refusal, actor=NOBODY))


def provider_failed(request: HttpRequest, error: Exception) -> HttpResponse:
    """Log why the provider's answer was of no use, and return the page that says so."""
    # Its text may have parts of the answer, such as a token.
    cause = (
        phrase("it could not be reached")
        if isinstance(error, requests.ConnectionError | requests.Timeout)
        else _cause(error)
    )
    log.warning("logging in with %s failed: %s (%s)", settings.OIDC_ISSUER, cause, type(error).__name__)
    failure = RemoteFailure("login.provider", OPERATION, cause=cause)
    return refused_login(request, failure, actor=NOBODY, status=502)


def _cause(error: Exception) -> str:
    text = str(error) if isinstance(error, OAuth2Error) else ""
    if code := TOKEN_ERROR.search(text):
        return phrase("it answered {code}", code=code[1])
    return text if text.startswith(("the ", "an ")) else phrase("its answer is not that of an OpenID Connect provider")


def _is_safe(address: Any) -> bool:
    if not isinstance(address, str):
        return False
    parts = urlsplit(address)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)
