"""How tests log in with a provider: the browser's way as far as dbops sees it."""

from typing import Any

from django.test import Client

from dbops.models import AuditEntry

PASSWORD = "correct horse battery"
CALLBACK = "http://testserver/login/oidc/callback/"
GROUPS = {"dba-team": "operator", "auditors": "viewer", "admins": "superuser"}


def configure(settings: Any, issuer: str, client_id: str, secret: str) -> None:
    settings.OIDC_ISSUER, settings.OIDC_CLIENT_ID, settings.OIDC_CLIENT_SECRET = issuer, client_id, secret
    settings.OIDC_GROUPS, settings.OIDC_SCOPES = GROUPS, ["openid", "profile", "groups"]


def authorization_url(client: Client, following: str = "/audit/") -> str:
    """Begin a login and return where the browser is sent."""
    page = client.post("/login/oidc/", {"next": following})
    assert page.status_code == 200
    return str(page.context["address"])


def last(prefix: str) -> AuditEntry:
    entry = AuditEntry.objects.filter(action__startswith=prefix).order_by("pk").last()
    assert entry is not None
    return entry
