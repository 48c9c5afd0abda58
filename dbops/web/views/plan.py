"""The plan of a rebuild: looking at it writes nothing, confirming it asks for exactly what was shown."""

import uuid
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from dbops.access import require_operator
from dbops.engine.errors import Refused
from dbops.engine.plan import Plan
from dbops.engine.states import Role
from dbops.models import Instance, Rebuild
from dbops.operations.rebuilds import candidate_sources, plan_rebuild, request_rebuild
from dbops.queries.fleet import InstanceRow, instance_row
from dbops.web.access import viewer_page


class ConfirmForm(forms.Form):
    """What the operator types, and what the page knew when it was shown."""

    typed_name = forms.CharField(max_length=63, required=False, strip=True)
    reason = forms.CharField(max_length=2000, required=False, strip=True)
    source = forms.CharField(max_length=63)
    fingerprint = forms.CharField(max_length=64)
    request_key = forms.UUIDField()
    keep_old_data = forms.BooleanField(required=False)


@dataclass(frozen=True, slots=True)
class Choice:
    """One possible source, with the address of the page that plans from it."""

    name: str
    role: str
    url: str
    is_chosen: bool


@require_http_methods(["GET", "POST"])
@never_cache
@viewer_page
def plan(request: HttpRequest, name: str) -> HttpResponse:
    """Show what a rebuild of the instance would do, and ask for it on POST."""
    target = get_object_or_404(Instance.objects.select_related("cluster", "host"), name=name)
    if request.method == "POST":
        return _confirm(request, target)
    source = _source(target, request.GET.get("source", ""))
    keep = request.GET.get("keep_old_data") == "1"
    return _show(request, target, source=source, keep=keep)


def _confirm(request: HttpRequest, target: Instance) -> HttpResponse:
    form = ConfirmForm(request.POST)
    form.is_valid()
    given = form.cleaned_data
    source = _source(target, given.get("source", ""))
    keep = given.get("keep_old_data", False)
    try:
        rebuild = _request(request, target, source, given)
    except Refused as error:
        reason = given.get("reason", "")
        return _show(request, target, source=source, keep=keep, refused=error, reason=reason, status=409)
    return redirect("rebuild", rebuild_id=rebuild.pk)


def _request(request: HttpRequest, target: Instance, source: Instance | None, given: dict[str, Any]) -> Rebuild:
    doing = f"Requesting a rebuild of {target.name}"
    require_operator(request.user, doing)
    assert isinstance(request.user, User)  # noqa: S101 - only a user is an operator
    if source is None or "request_key" not in given or "fingerprint" not in given:
        raise Refused(
            "plan.incomplete",
            doing,
            found="the form came without its source, its fingerprint or its request key",
            left="Nothing was changed.",
            next_step="Read the plan again below and confirm it anew.",
        )
    return request_rebuild(
        actor=request.user,
        target=target,
        source=source,
        typed_name=given.get("typed_name", ""),
        reason=given.get("reason", ""),
        fingerprint=given["fingerprint"],
        request_key=str(given["request_key"]),
        keep_old_data=given.get("keep_old_data", False),
    )


def _show(
    request: HttpRequest,
    target: Instance,
    *,
    source: Instance | None,
    keep: bool,
    refused: Refused | None = None,
    reason: str = "",
    status: int = 200,
) -> HttpResponse:
    found: Plan | None = None
    no_plan: Refused | None = None
    sources: list[Instance] = []
    if target.role != Role.PRIMARY:
        sources = candidate_sources(target)
    try:
        found = plan_rebuild(target=target, source=source, keep_old_data=keep)
    except Refused as error:
        no_plan = error
    row = instance_row(target)
    wanted = source or next(iter(sources), None)
    chosen = found.source.name if found else wanted.name if wanted else ""
    context = {
        "target": target,
        "row": row,
        "plan": found,
        "no_plan": no_plan,
        "refused": refused,
        "reason": reason,
        "findings": found.findings if found else (),
        "choices": [_choice(target, item, chosen=chosen, keep=keep) for item in sources],
        "keep": keep,
        "keep_url": _url(target, source=chosen, keep=True),
        "aside_url": _url(target, source=chosen, keep=False),
        "stops": stops(request, found, row),
        "request_key": uuid.uuid4(),
    }
    return render(request, "rebuilds/plan.html", context, status=status)


def stops(request: HttpRequest, found: Plan | None, row: InstanceRow) -> list[str]:
    """Return why the form cannot be sent now."""
    reasons = []
    if not request.may_operate:  # type: ignore[attr-defined]
        reasons.append("You may look at this plan. Only operators may start a rebuild.")
    if row.rebuild:
        reasons.append(f"Rebuild {row.rebuild.pk} of {row.instance.name} is {row.rebuild.status}.")
    if found and found.refusals:
        reasons += [f"“{finding.title}” does not hold: {finding.seen}" for finding in found.refusals]
    return reasons


def _source(target: Instance, name: str) -> Instance | None:
    """Return the named instance of the target's cluster, ``None`` where there is no such one."""
    return Instance.objects.filter(cluster=target.cluster_id, name=name).exclude(pk=target.pk).first() if name else None


def _choice(target: Instance, source: Instance, *, chosen: str, keep: bool) -> Choice:
    url = _url(target, source=source.name, keep=keep)
    return Choice(name=source.name, role=source.role, url=url, is_chosen=source.name == chosen)


def _url(target: Instance, *, source: str, keep: bool) -> str:
    asked = ({"source": source} if source else {}) | ({"keep_old_data": "1"} if keep else {})
    return reverse("plan", args=[target.name]) + (f"?{urlencode(asked)}" if asked else "")
