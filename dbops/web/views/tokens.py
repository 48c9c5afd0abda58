"""Access tokens, and the calendar feed that one of them opens."""

from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from dbops.database import clock
from dbops.engine.errors import Refused
from dbops.models import AccessToken, Cluster
from dbops.operations import tokens as verbs
from dbops.queries.admin.accounts import api_tokens, machine_tokens
from dbops.queries.schedule.feed import feed
from dbops.security.permissions import may_administer
from dbops.web.decorators import operator_page, user_of
from dbops.web.exports import ical
from dbops.web.forms.schedules import TokenForm
from dbops.web.templatetags.phrases import translated


@require_http_methods(["GET", "POST"])
@never_cache
@operator_page
def tokens(request: HttpRequest) -> HttpResponse:
    """List the tokens; create a calendar token on POST and show its address once."""
    cluster = Cluster.objects.filter(name=request.GET.get("cluster", "")).first()
    form = TokenForm(request.POST if request.method == "POST" else None, initial={"cluster": cluster})
    address, made = "", None
    if request.method == "POST" and form.is_valid():
        values = form.cleaned_data
        try:
            made, secret = verbs.make_token(
                actor=user_of(request).get_username(),
                name=values["name"],
                purpose=verbs.CALENDAR,
                cluster=values["cluster"],
            )
        except Refused as error:
            form.add_error(None, f"{translated(error.cause)} {translated(error.next_step)}")
        else:
            address = request.build_absolute_uri(reverse("calendar-feed")) + "?" + urlencode({"token": secret})
            form = TokenForm()
    context = {
        "form": form,
        "address": address,
        "made": made,
        "tokens": machine_tokens(),
        "api_tokens": api_tokens() if may_administer(user_of(request)) else None,
    }
    return render(request, "tokens/list.html", context, status=422 if form.errors else 200)


@require_POST
@operator_page
def revoke(request: HttpRequest, token_id: int) -> HttpResponse:
    """Revoke a token of a machine."""
    token = get_object_or_404(AccessToken, pk=token_id, user=None)
    verbs.revoke_token(actor=user_of(request).get_username(), name=token.name)
    messages.success(request, _("Token %(token)s revoked.") % {"token": token.name})
    return redirect("tokens")


@login_not_required
@require_GET
@never_cache
def calendar_feed(request: HttpRequest) -> HttpResponse:
    """Send the backup windows as iCalendar to the owner of a calendar token."""
    try:
        token = verbs.token_of(request.GET.get("token", ""), verbs.CALENDAR)
    except Refused as error:
        text = "This address is not valid. Ask an operator for a new one.\n"
        status = 429 if error.code == "report.too_many" else 403
        return HttpResponse(text, status=status, content_type="text/plain; charset=utf-8")
    now = clock.now()
    name = f"Backups of {token.cluster.name}" if token.cluster else "Backups of the fleet"
    body = ical.render(feed(token.cluster, now), name=name, domain=request.get_host(), now=now)
    headers = {"Content-Disposition": 'inline; filename="windows.ics"', "X-Content-Type-Options": "nosniff"}
    return HttpResponse(body, content_type="text/calendar; charset=utf-8", headers=headers)
