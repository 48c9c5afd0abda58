"""Log in with the OpenID Connect provider: leave for it, and come back."""

import secrets

from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.providers.base.constants import AuthProcess
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods

from dbops.operations.provider_accounts import PROVIDER
from dbops.web.login.provider import BROKEN, OidcAdapter, provider_failed


@login_not_required
@require_http_methods(["GET", "POST"])
@never_cache
def begin(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Send the browser to the provider, on POST alone: no other site begins a login here.

    The page opens the provider automatically. A redirect would need the provider in the Content-Security-Policy, as a target of forms.
    """
    _known(provider_id)
    if request.method == "GET" or request.user.is_authenticated:
        return redirect("login")
    wanted = request.POST.get("next", "")
    is_ours = url_has_allowed_host_and_scheme(wanted, allowed_hosts=None)
    try:
        provider = get_adapter(request).get_provider(request, PROVIDER)
        nonce = secrets.token_urlsafe(24)
        following = wanted if is_ours else reverse("fleet")
        answer = provider.redirect(
            request, AuthProcess.LOGIN, next_url=following, auth_params={"nonce": nonce}, nonce=nonce
        )
        address = answer.headers["Location"]
    except BROKEN as error:
        return provider_failed(request, error)
    return render(request, "login/to_provider.html", {"address": address, "name": settings.OIDC_NAME})


@login_not_required
@require_GET
@never_cache
def callback(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Finish a login that the provider answers."""
    _known(provider_id)
    try:
        view = OAuth2CallbackView.adapter_view(OidcAdapter(request, PROVIDER))
        answer: HttpResponse = view(request)
    except BROKEN as error:
        return provider_failed(request, error)
    return answer


def _known(provider_id: str) -> None:
    if not settings.OIDC_ISSUER or provider_id != PROVIDER:
        raise Http404(_("No provider is configured."))
