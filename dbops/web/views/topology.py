"""Topology of a cluster, differences from the inventory, and discoveries."""

from typing import Any

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_http_methods
from django.views.decorators.vary import vary_on_headers

from dbops.engine.errors import Refused
from dbops.fleetfile.proposal import proposal_text
from dbops.models import Cluster, Discovery
from dbops.operations import fleet, topology
from dbops.queries import topology as queries
from dbops.queries.fleet.cluster import cluster_page
from dbops.web.decorators import operator_page, user_of, viewer_page
from dbops.web.forms.topology import DiscoveryForm, ProposalForm
from dbops.web.refusal_texts import refusal_text

#: htmx stops polling after this answer: https://htmx.org/docs/#polling
STOP_POLLING = 286


@require_GET
@never_cache
@vary_on_headers("HX-Request")
@viewer_page
def cluster(request: HttpRequest, name: str) -> HttpResponse:
    """Show a cluster's topology and its differences from the inventory; a poll gets it without the frame."""
    page = cluster_page(get_object_or_404(Cluster, name=name))
    context = {
        "cluster": page.cluster,
        "drawing": queries.drawing(page),
        "differences": queries.differences(page.cluster.pk),
    }
    template = "topology/_cluster.html" if request.headers.get("HX-Request") else "topology/cluster.html"
    return render(request, template, context)


@require_http_methods(["GET", "POST"])
@never_cache
@operator_page
def difference(request: HttpRequest, name: str, difference_id: int) -> HttpResponse:
    """Show one difference; accept or reopen it on POST."""
    found = queries.difference(name, difference_id)
    if found is None:
        raise Http404
    refused: Refused | None = None
    if request.method == "POST":
        try:
            message = _act(request, found)
        except Refused as error:
            refused = error
            found = queries.difference(name, difference_id) or found
        else:
            messages.success(request, message)
            return redirect("topology", name=name)
    context = {
        "cluster": found.row.cluster,
        "item": found,
        "refused": refused,
        "reason": request.POST.get("reason", ""),
    }
    return render(request, "topology/difference.html", context, status=409 if refused else 200)


def _act(request: HttpRequest, found: queries.DifferenceRow) -> str:
    row, user, reason = found.row, user_of(request), request.POST.get("reason", "")
    action = request.POST.get("action")
    if action == "roles":
        topology.accept_roles(actor=user, row=row, typed_name=request.POST.get("typed_name", ""), reason=reason)
        return _("%(server)s is now the primary of %(cluster)s.") % {"server": row.subject, "cluster": row.cluster.name}
    if action == "withdraw":
        topology.withdraw(actor=user, row=row)
        return _("Difference reopened.")
    topology.accept_as_intended(actor=user, row=row, reason=reason)
    return _("Difference accepted.")


@sensitive_post_parameters("password")
@require_http_methods(["GET", "POST"])
@never_cache
@operator_page
def discoveries(request: HttpRequest) -> HttpResponse:
    """Request a discovery, and list the latest ones."""
    form = DiscoveryForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            row = topology.request_discovery(actor=user_of(request).get_username(), **form.cleaned_data)
        except Refused as error:
            form.add_error(None, refusal_text(error))
        else:
            return redirect("discovery", discovery_id=row.pk)
    context = {"form": form, "discoveries": queries.discoveries()}
    return render(request, "topology/discoveries.html", context, status=422 if form.errors else 200)


@require_GET
@never_cache
@vary_on_headers("HX-Request")
@operator_page
def discovery(request: HttpRequest, discovery_id: int) -> HttpResponse:
    """Show the result and proposals of one discovery; a poll gets it without the frame, until it has ended."""
    row = get_object_or_404(Discovery.objects.select_related("cluster").defer("password"), pk=discovery_id)
    found = queries.found_of(row)
    context = {"discovery": row, "found": found, "proposals": queries.proposals(found) if found else []}
    if request.headers.get("HX-Request"):
        return render(request, "topology/_discovery.html", context, status=STOP_POLLING if row.is_over else 200)
    return render(request, "topology/discovery.html", context)


@sensitive_post_parameters()
@require_http_methods(["GET", "POST"])
@never_cache
@operator_page
def add(request: HttpRequest, discovery_id: int, number: int) -> HttpResponse:
    """Show the form that adds discovered servers; check or import them on POST."""
    row = get_object_or_404(Discovery.objects.select_related("cluster").defer("password"), pk=discovery_id)
    found = queries.found_of(row)
    proposals = queries.proposals(found) if found else []
    if number >= len(proposals) or not proposals[number].new:
        raise Http404
    proposal = proposals[number]
    admin_user = row.cluster.admin_user if row.cluster else row.user
    form = ProposalForm(proposal, request.POST if request.method == "POST" else None, admin_user=admin_user)
    context: dict[str, Any] = {"discovery": row, "proposal": proposal, "form": form}
    status = 200
    if request.method == "POST":
        status = 422
        if form.is_valid():
            context |= _import(request, form)
            status = 422 if "errors" in context else 200
            if context.get("report") and not context["dry_run"]:
                messages.success(
                    request, _("Imported: %(report)s. Next, accept the host keys.") % {"report": context["report"]}
                )
                return redirect("inventory")
    return render(request, "topology/add.html", context, status=status)


def _import(request: HttpRequest, form: ProposalForm) -> dict[str, Any]:
    """Pass the submitted proposal to the import of fleet files, with its checks and its audit entries."""
    shared = form.cluster.cleaned_data
    instances = form.instances()
    if not instances:
        form.cluster.add_error(None, ValidationError(_("Select at least one server."), code="none_ticked"))
        return {"errors": []}

    def text(*, show_secrets: bool) -> str:
        return proposal_text(
            cluster=shared["cluster"],
            write_addresses=[line.strip() for line in shared["write_addresses"].splitlines() if line.strip()],
            accounts=form.cluster.accounts(),
            instances=instances,
            show_secrets=show_secrets,
        )

    dry_run = request.POST.get("action") != "import"
    shown = {"text": text(show_secrets=False), "dry_run": dry_run}
    try:
        report = fleet.import_fleet(
            actor=user_of(request).get_username(),
            text=text(show_secrets=True),
            base_dir=None,
            dry_run=dry_run,
            user=user_of(request),
        )
    except fleet.FleetFileErrors as found:
        return {**shown, "errors": found.errors}
    return {**shown, "report": report}
