"""Attest the storage of an instance, or withdraw that."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from dbops.engine.errors import Refused
from dbops.engine.tuning.doublewrite import KINDS
from dbops.models import Instance
from dbops.operations.attestations import attest_storage, digest_of, withdraw_attestation
from dbops.queries.fleet.doublewrite import doublewrite_page
from dbops.web.decorators import operator_page, user_of

FIELDS = ("kind", "reference", "review_on", "reason")


@require_http_methods(["GET", "POST"])
@never_cache
@operator_page
def attestation(request: HttpRequest, name: str) -> HttpResponse:
    """Show what an operator would attest; attest or withdraw it on POST."""
    instance = get_object_or_404(Instance.objects.select_related("cluster"), name=name)
    refused: Refused | None = None
    if request.method == "POST":
        try:
            message = _act(request, instance)
        except Refused as error:
            refused = error
        else:
            messages.success(request, message)
            return redirect(f"{reverse('lineage', args=[name])}#doublewrite")
    found = doublewrite_page(instance)
    context = {
        "instance": instance,
        "doublewrite": found,
        "seen": digest_of(found.advice.storage) if found else "",
        "kinds": KINDS,
        "typed": {field: request.POST.get(field, "") for field in FIELDS},
        "refused": refused,
    }
    return render(request, "lineage/attestation.html", context, status=409 if refused else 200)


def _act(request: HttpRequest, instance: Instance) -> str:
    sent = request.POST
    if sent.get("action") == "withdraw":
        withdraw_attestation(actor=user_of(request), instance=instance, reason=sent.get("reason", ""))
        return _("Attestation of %(name)s withdrawn.") % {"name": instance.name}
    attest_storage(
        actor=user_of(request),
        instance=instance,
        kind=sent.get("kind", ""),
        reference=sent.get("reference", ""),
        review_on=sent.get("review_on", ""),
        typed_name=sent.get("typed_name", ""),
        seen=sent.get("seen", ""),
    )
    return _("Storage of %(name)s attested.") % {"name": instance.name}
