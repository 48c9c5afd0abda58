"""The plan of a rebuild: looking at it writes nothing, confirming it asks for exactly what was shown."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
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
from dbops.engine import ways as start_ways
from dbops.engine.blocker import Kind
from dbops.engine.errors import Refused
from dbops.engine.plan import Plan
from dbops.engine.states import Role
from dbops.models import Instance, Rebuild
from dbops.operations.rebuilds import candidate_sources, plan_rebuild, request_rebuild
from dbops.operations.starts import EXPIRES_HOURS, Offer, default_expires_hours, offer
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
    start = forms.CharField(max_length=120, required=False, empty_value=start_ways.Way.SOON.value)
    expires_hours = forms.IntegerField(min_value=EXPIRES_HOURS[0], max_value=EXPIRES_HOURS[-1], required=False)


class MomentForm(forms.Form):
    """A moment that a person names, in the dashboard's time zone."""

    start_at = forms.DateTimeField()


@dataclass(frozen=True, slots=True)
class Choice:
    """One possible source, with the address of the page that plans from it."""

    name: str
    role: str
    url: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class StartChoice:
    """One way to start, with the address of the page that plans it."""

    choice: start_ways.Choice
    url: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """What the address or the form says: the page shows it, and a confirmation asks for it."""

    source: Instance | None
    keep: bool
    start: str
    expires_hours: int | None = None
    reason: str = ""


@require_http_methods(["GET", "POST"])
@never_cache
@viewer_page
def plan(request: HttpRequest, name: str) -> HttpResponse:
    """Show what a rebuild of the instance would do, and ask for it on POST."""
    target = get_object_or_404(Instance.objects.select_related("cluster", "host"), name=name)
    if request.method == "POST":
        return _confirm(request, target)
    asked = Asked(
        source=_source(target, request.GET.get("source", "")),
        keep=request.GET.get("keep_old_data") == "1",
        start=request.GET.get("start", ""),
    )
    if "start_at" not in request.GET:
        return _show(request, target, asked)
    named = MomentForm(request.GET)
    if named.is_valid():
        return _show(request, target, replace(asked, start=start_ways.moment_key(named.cleaned_data["start_at"])))
    return _show(request, target, asked, bad_moment=" ".join(str(item) for item in named.errors["start_at"]))


def _confirm(request: HttpRequest, target: Instance) -> HttpResponse:
    form = ConfirmForm(request.POST)
    form.is_valid()
    given = form.cleaned_data
    asked = Asked(
        source=_source(target, given.get("source", "")),
        keep=given.get("keep_old_data", False),
        start=given.get("start", ""),
        expires_hours=given.get("expires_hours"),
        reason=given.get("reason", ""),
    )
    try:
        rebuild = _request(request, target, asked, given, has_bad_hours="expires_hours" in form.errors)
    except Refused as error:
        return _show(request, target, asked, refused=error)
    return redirect("rebuild", rebuild_id=rebuild.pk)


def _request(
    request: HttpRequest, target: Instance, asked: Asked, given: dict[str, Any], *, has_bad_hours: bool
) -> Rebuild:
    doing = f"Requesting a rebuild of {target.name}"
    require_operator(request.user, doing)
    assert isinstance(request.user, User)  # noqa: S101 - only a user is an operator
    if has_bad_hours:
        raise Refused(
            "plan.expiry",
            doing,
            found="the hours after which it expires are no number within the bounds",
            left="Nothing was changed.",
            next_step=f"Give {EXPIRES_HOURS[0]} to {EXPIRES_HOURS[-1]} hours.",
        )
    if asked.source is None or "request_key" not in given or "fingerprint" not in given:
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
        source=asked.source,
        typed_name=given.get("typed_name", ""),
        reason=asked.reason,
        fingerprint=given["fingerprint"],
        request_key=str(given["request_key"]),
        keep_old_data=asked.keep,
        start=asked.start,
        expires_hours=asked.expires_hours,
    )


def _show(
    request: HttpRequest, target: Instance, asked: Asked, *, refused: Refused | None = None, bad_moment: str = ""
) -> HttpResponse:
    found: Plan | None = None
    no_plan: Refused | None = None
    sources: list[Instance] = []
    if target.role != Role.PRIMARY:
        sources = candidate_sources(target)
    try:
        found = plan_rebuild(target=target, source=asked.source, keep_old_data=asked.keep)
    except Refused as error:
        no_plan = error
    row = instance_row(target)
    wanted = asked.source or next(iter(sources), None)
    chosen = found.source.name if found else wanted.name if wanted else ""
    ways = offer(target, wanted, key=asked.start)
    start = ways.chosen(asked.start)

    def url(**changes: Any) -> str:
        return _url(target, **{"source": chosen, "keep": asked.keep, "start": asked.start, **changes})

    context = {
        "target": target,
        "row": row,
        "plan": found,
        "no_plan": no_plan,
        "refused": refused,
        "reason": asked.reason,
        "findings": found.findings if found else (),
        "choices": [
            Choice(item.name, item.role, url(source=item.name, start=""), item.name == chosen) for item in sources
        ],
        "keep": asked.keep,
        "keep_url": url(keep=True),
        "aside_url": url(keep=False),
        "verdict": ways.verdict,
        "starts": [_start_choice(item, url, start) for item in ways.choices],
        "start": start,
        "named_moment": start_ways.moment_of(asked.start),
        "bad_moment": bad_moment,
        "expires_hours": asked.expires_hours or default_expires_hours(),
        "expires_bounds": EXPIRES_HOURS,
        "stops": stops(request, found, row) + start_stops(ways, start, asked.start),
        "request_key": uuid.uuid4(),
    }
    return render(request, "rebuilds/plan.html", context, status=409 if refused else 200)


def _start_choice(choice: start_ways.Choice, url: Callable[..., str], start: start_ways.Choice | None) -> StartChoice:
    """Another source is another plan: its page begins anew with its own ways to start."""
    is_elsewhere = choice.way is start_ways.Way.ELSEWHERE
    address = url(source=choice.source, start="") if is_elsewhere else url(start=choice.key)
    return StartChoice(choice, address, start is choice)


def start_stops(ways: Offer, start: start_ways.Choice | None, asked: str) -> list[str]:
    """Return why the chosen way to start cannot be asked for now, but for what the plan's own checks say already.

    Where what was asked for is gone, a person chooses anew: nothing starts now because something else was wanted.
    """
    if start is None:
        return []
    if asked not in ("", start.key, start_ways.Way.SOON):
        return ["The way to start that was asked for is not offered any more. Look above, and choose anew."]
    if start.is_possible:
        return []
    blocking = [item for item in ways.verdict.blockers if item.kind in (Kind.MAINTENANCE, Kind.TOPOLOGY)]
    if blocking and not start.not_before:
        return [f"{item.text} {item.reason}" for item in blocking]
    return [f"{start.title}: {start.reason}"] if start.is_deferred and start.reason else []


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


def _url(target: Instance, *, source: str, keep: bool, start: str) -> str:
    asked = {"source": source, "keep_old_data": "1" if keep else "", "start": start}
    given = {name: value for name, value in asked.items() if value}
    return reverse("plan", args=[target.name]) + (f"?{urlencode(given)}" if given else "")
