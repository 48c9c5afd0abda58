"""API tokens: list, create and revoke."""

from allauth.account.decorators import reauthentication_required
from allauth.account.internal.flows.reauthentication import get_reauthentication_flows
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from dbops.engine.errors import Refused
from dbops.models import AccessToken
from dbops.operations import api_tokens as verbs
from dbops.queries.admin.accounts import api_tokens
from dbops.web.decorators import user_of, viewer_page
from dbops.web.forms.api_tokens import ApiTokenForm
from dbops.web.refusal_texts import refusal_text


def _can_confirm(request: HttpRequest) -> bool:
    """Whether the person has a password or a factor here. Others have logged in through the provider, which checks theirs."""
    return bool(get_reauthentication_flows(request.user))


@require_GET
@never_cache
@viewer_page
def tokens(request: HttpRequest) -> HttpResponse:
    """List the person's own tokens."""
    return render(request, "account/tokens.html", {"api_tokens": api_tokens(user_of(request))})


@require_http_methods(["GET", "POST"])
@never_cache
@viewer_page
@reauthentication_required(enabled=_can_confirm)
def make(request: HttpRequest) -> HttpResponse:
    """Create a token on POST, and show its secret once."""
    form = ApiTokenForm(request.POST if request.method == "POST" else None)
    secret, made = "", None
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        try:
            made, secret = verbs.make_api_token(
                actor=user_of(request),
                name=given["name"],
                scope=given["scope"],
                clusters=list(given["clusters"]) or None,
                days=given["days"],
            )
        except Refused as error:
            form.add_error(None, refusal_text(error))
    context = {"form": form, "secret": secret, "made": made}
    return render(request, "account/token_add.html", context, status=422 if form.errors else 200)


@require_POST
@viewer_page
def revoke(request: HttpRequest, token_id: int) -> HttpResponse:
    """Revoke one of the person's own tokens; superusers can revoke all."""
    person = user_of(request)
    mine = AccessToken.objects.exclude(user=None) if person.is_superuser else AccessToken.objects.filter(user=person)
    token = get_object_or_404(mine.select_related("user"), pk=token_id)
    verbs.revoke_api_token(actor=person, token=token)
    messages.success(request, _("Token %(token)s revoked.") % {"token": token.name})
    return redirect("own-tokens" if token.user_id == person.pk else "tokens")
