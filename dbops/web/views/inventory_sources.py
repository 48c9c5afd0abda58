"""Inventory sources: superusers add and remove them, operators read them and judge their differences."""

from collections.abc import Iterable

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from dbops.engine.errors import Refused
from dbops.engine.inventory.comparison import ListingDifference
from dbops.engine.phrases import phrase
from dbops.fleetfile.proposal import listed_text
from dbops.models import InventorySource
from dbops.operations import inventory_sources as verbs
from dbops.queries.inventory_sources import SourceNow, sources
from dbops.web.decorators import operator_page, superuser_page, user_of
from dbops.web.forms.inventory_import import ImportForm
from dbops.web.forms.inventory_sources import SourceForm
from dbops.web.refusal_texts import refusal_text

#: Of a reason.
MOST_CHARACTERS = 300


@require_GET
@never_cache
@operator_page
def page(request: HttpRequest) -> HttpResponse:
    """List the sources."""
    return render(request, "inventory_sources/list.html", {"sources": sources()})


@sensitive_post_parameters("secret")
@require_http_methods(["GET", "POST"])
@never_cache
@superuser_page
def add(request: HttpRequest) -> HttpResponse:
    """Show an empty form; add a source on POST."""
    form = SourceForm(request.POST if request.method == "POST" else None)
    if form.is_bound and form.is_valid():
        try:
            source = verbs.add_source(actor=user_of(request).get_username(), **form.cleaned_data)
        except Refused as error:
            form.add_error(None, ValidationError(refusal_text(error), code=error.code))
        else:
            messages.success(
                request,
                _("Inventory source %(source)s added. A worker reads it within seconds.") % {"source": source.name},
            )
            return redirect("inventory-source", name=source.name)
    return render(request, "inventory_sources/add.html", {"form": form}, status=422 if form.errors else 200)


@require_http_methods(["GET", "POST"])
@never_cache
@operator_page
def source(request: HttpRequest, name: str) -> HttpResponse:
    """Show a source with its differences; ignore one, or open it again, on POST."""
    now = _now(name)
    refused: Refused | None = None
    if request.method == "POST":
        try:
            _judge(request, now)
            return redirect("inventory-source", name=name)
        except Refused as error:
            refused = error
    context = {"now": now, "refused": refused, "clusters": sorted({server.cluster for server in now.comparison.new})}
    return render(request, "inventory_sources/source.html", context, status=409 if refused else 200)


def _judge(request: HttpRequest, now: SourceNow) -> None:
    actor, is_new = user_of(request).get_username(), request.POST.get("action") != "open"
    shown = now.open if is_new else tuple(one.difference for one in now.ignored)
    difference = _posted(request, shown)
    if difference is None:
        operation = phrase("Judging a difference of inventory source {name}", name=repr(now.source.name))
        raise Refused("inventory_source.stale", operation, cause=phrase("there is no such difference now"))
    if is_new:
        reason = request.POST.get("reason", "").replace("\0", "")[:MOST_CHARACTERS]
        verbs.ignore_difference(actor=actor, name=now.source.name, difference=difference, reason=reason)
    else:
        verbs.stop_ignoring(actor=actor, name=now.source.name, difference=difference)
    messages.success(
        request,
        (_("%(server)s: difference ignored.") if is_new else _("%(server)s: difference open again."))
        % {"server": difference.server},
    )


def _posted(request: HttpRequest, shown: Iterable[ListingDifference]) -> ListingDifference | None:
    """Return the difference that the page showed, if it still has these values."""
    values = tuple(request.POST.get(name, "") for name in ("code", "server", "listed", "known"))
    return next((one for one in shown if (one.code, one.server, one.listed, one.known) == values), None)


@require_POST
@operator_page
def read(request: HttpRequest, name: str) -> HttpResponse:
    """Have a worker read a source now."""
    _now(name)
    verbs.request_reading(actor=user_of(request).get_username(), name=name)
    messages.success(request, _("A worker reads the source within seconds. Reload this page."))
    return redirect("inventory-source", name=name)


@require_GET
@never_cache
@operator_page
def proposal(request: HttpRequest, name: str) -> HttpResponse:
    """Show a fleet file of the servers that the inventory lacks, to complete and import."""
    cluster = request.GET.get("cluster", "")
    servers = [server for server in _now(name).comparison.new if server.cluster == cluster]
    if not servers:
        raise Http404
    form = ImportForm()
    context = {"form": form, "text": listed_text(servers), "name": name, "cluster": cluster, "count": len(servers)}
    return render(request, "inventory_sources/proposal.html", context)


@require_http_methods(["GET", "POST"])
@never_cache
@superuser_page
def remove(request: HttpRequest, name: str) -> HttpResponse:
    """Ask for confirmation; remove a source on POST."""
    _now(name)
    if request.method == "POST":
        verbs.remove_source(actor=user_of(request).get_username(), name=name)
        messages.success(
            request, _("Inventory source %(name)s removed. The inventory did not change.") % {"name": name}
        )
        return redirect("inventory-sources")
    return render(request, "inventory_sources/remove.html", {"name": name})


def _now(name: str) -> SourceNow:
    found = sources(InventorySource.objects.filter(name=name))
    if not found:
        raise Http404
    return found[0]
