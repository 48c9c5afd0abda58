"""Show the plan of a rebuild, and request exactly that plan on confirmation."""

import re
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from django import forms
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from dbops.engine.errors import Refused
from dbops.engine.methods import DEFAULT_METHOD, METHODS
from dbops.engine.phrases import phrase
from dbops.engine.planning.impact import impact
from dbops.engine.planning.method_comparison import MethodComparison, compare
from dbops.engine.planning.plan_diff import ShownPlan
from dbops.engine.planning.planner import build_plan
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.schedule.start_option_keys import StartMode, StartOption, moment_key, moment_of
from dbops.engine.states import REPLICAS
from dbops.engine.tuning.stream_rate import MIB
from dbops.models import Instance, Rebuild
from dbops.operations.follow_up_options import choices_of
from dbops.operations.rate_limit import can_be_held
from dbops.operations.rebuilds import candidate_sources, plan_inputs_for, request_rebuild
from dbops.operations.start_options import EXPIRES_HOURS, default_expires_hours, offered_start_options
from dbops.operations.strict_places import approval_need
from dbops.queries.fleet.cluster import cluster_row
from dbops.security.permissions import require_operator
from dbops.web.blocking_reasons import again_blocking_reasons, blocking_reasons, start_blocking_reasons
from dbops.web.decorators import user_of, viewer_page
from dbops.web.plan_snapshot import differences, packed, shown, unpacked
from dbops.web.views.plan_url import plan_url

#: The form field that fixes a refusal, by code.
FIELDS = {
    "rebuild.name": "typed_name",
    "rebuild.reason": "reason",
    "rebuild.ticket": "ticket",
    "plan.expiry": "expires_hours",
    "rebuild.rate": "rate",
}
#: Maximum length of input that is shown again.
TYPED_CHARACTERS = 2000
#: Pattern of a rebuild number that every database accepts.
REBUILD_ID = re.compile(r"[0-9]{1,9}")


class ConfirmForm(forms.Form):
    """The operator's input, and the state of the page when it was shown."""

    reason = forms.CharField(max_length=TYPED_CHARACTERS, required=False, strip=True)
    source = forms.CharField(max_length=63)
    method = forms.ChoiceField(choices=lambda: [(name, name) for name in METHODS], required=False)
    fingerprint = forms.CharField(max_length=64)
    request_key = forms.UUIDField()
    keep_old_data = forms.BooleanField(required=False)
    full_certificate = forms.BooleanField(required=False)
    start = forms.CharField(max_length=120, required=False, empty_value=StartMode.SOON.value)
    expires_hours = forms.IntegerField(min_value=EXPIRES_HOURS[0], max_value=EXPIRES_HOURS[-1], required=False)
    rate = forms.FloatField(required=False)


class MomentForm(forms.Form):
    """A time that a person names, in the dashboard's time zone."""

    start_at = forms.DateTimeField()


@dataclass(frozen=True, slots=True)
class SourceChoice:
    """One possible source, with the URL of its plan."""

    name: str
    role: str
    url: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class MethodChoice:
    """One method, with the URL of its plan."""

    compared: MethodComparison
    url: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class StartChoice:
    """One start option, with the URL of its plan."""

    choice: StartOption
    url: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class PlanQuery:
    """Choices in the URL or form: the page shows them, and a confirmation requests them.

    ``typed`` is the user's input by field; ``seen`` is the plan that the page showed. ``again`` is the unsuccessful rebuild that
    is repeated.
    """

    source: Instance | None
    keep: bool
    start: str
    method: str = DEFAULT_METHOD
    full: bool = False
    expires_hours: int | None = None
    reason: str = ""
    typed: dict[str, str] = field(default_factory=dict)
    seen: ShownPlan | None = None
    again: Rebuild | None = None


@require_http_methods(["GET", "POST"])
@never_cache
@viewer_page
def plan(request: HttpRequest, name: str) -> HttpResponse:
    """Show the plan of a rebuild of the instance; request it on POST."""
    target = get_object_or_404(Instance.objects.select_related("cluster", "host"), name=name)
    if request.method == "POST":
        return _confirm(request, target)
    asked = _asked(request.GET, target)
    if "start_at" not in request.GET:
        return _show(request, target, asked)
    named = MomentForm(request.GET)
    if named.is_valid():
        return _show(request, target, replace(asked, start=moment_key(named.cleaned_data["start_at"])))
    return _show(request, target, asked, bad_moment=" ".join(str(item) for item in named.errors["start_at"]))


def _asked(given: QueryDict, target: Instance) -> PlanQuery:
    """Return the requested choices: the URL's own, or those of the repeated rebuild."""
    asked = PlanQuery(
        source=_source(target, given.get("source", "")),
        keep=given.get("keep_old_data") == "1",
        full=given.get("full_certificate") == "1",
        start=given.get("start", ""),
        method=_method(given.get("method", "")),
        again=_again(target, given.get("again", "")),
    )
    if asked.again is None:
        return asked
    before = choices_of(asked.again)
    rate = f"{before.rate / MIB:g}" if before.rate else ""
    typed = {"reason": before.reason[:TYPED_CHARACTERS], "ticket": asked.again.ticket, "rate": rate}
    asked = replace(asked, typed={name: text for name, text in typed.items() if text})
    if "source" in given:
        return asked
    asked = replace(asked, keep=before.keep_old_data, full=before.full_certificate)
    return replace(asked, source=_source(target, before.source.name), method=_method(before.method))


def _again(target: Instance, number: str) -> Rebuild | None:
    """Return the repeated rebuild of the target. Raises ``Http404`` if it does not exist."""
    if not number:
        return None
    if not REBUILD_ID.fullmatch(number):
        raise Http404
    return get_object_or_404(Rebuild.objects.select_related("target", "source"), pk=number, target=target)


def _confirm(request: HttpRequest, target: Instance) -> HttpResponse:
    form = ConfirmForm(request.POST)
    form.is_valid()
    given = form.cleaned_data
    asked = PlanQuery(
        source=_source(target, given.get("source", "")),
        keep=given.get("keep_old_data", False),
        full=given.get("full_certificate", False),
        start=given.get("start", ""),
        method=_method(given.get("method", "")),
        expires_hours=given.get("expires_hours"),
        reason=given.get("reason", ""),
        typed={name: request.POST[name][:TYPED_CHARACTERS] for name in FIELDS.values() if name in request.POST},
        seen=unpacked(request.POST.get("shown", ""), given.get("fingerprint", "")),
        again=_again(target, request.POST.get("again", "")),
    )
    try:
        rebuild = _request(request, target, asked, form)
    except Refused as error:
        return _show(request, target, asked, refused=error)
    return redirect("rebuild", rebuild_id=rebuild.pk)


def _request(request: HttpRequest, target: Instance, asked: PlanQuery, form: ConfirmForm) -> Rebuild:
    operation, given = phrase("Requesting a rebuild of {name}", name=target.name), form.cleaned_data
    require_operator(request.user, operation, target.cluster_id)
    if "expires_hours" in form.errors:
        found = phrase("the expiry is not a number in range")
        raise Refused.unchanged(
            "plan.expiry",
            operation,
            found,
            next_step=phrase("Enter {least} to {most} hours.", least=EXPIRES_HOURS[0], most=EXPIRES_HOURS[-1]),
        )
    if "reason" in form.errors:
        found = phrase(
            "the reason is longer than {most} characters or contains characters that cannot be stored",
            most=TYPED_CHARACTERS,
        )
        raise Refused.unchanged(
            "rebuild.reason", operation, found, next_step=phrase("Enter a shorter reason. The audit log records it.")
        )
    if "rate" in form.errors:
        found = phrase("the rate limit is not a number")
        raise Refused.unchanged(
            "rebuild.rate",
            operation,
            found,
            next_step=phrase("Enter a number of MiB/s, or leave it empty for no limit."),
        )
    if asked.source is None or "method" in form.errors or "request_key" not in given or "fingerprint" not in given:
        found = phrase("the form is incomplete: source, fingerprint or request key is missing")
        raise Refused.unchanged("plan.incomplete", operation, found)
    return request_rebuild(
        actor=user_of(request),
        target=target,
        source=asked.source,
        typed_name=asked.typed.get("typed_name", "").strip(),
        reason=asked.reason,
        fingerprint=given["fingerprint"],
        request_key=str(given["request_key"]),
        method=asked.method,
        keep_old_data=asked.keep,
        full_certificate=asked.full,
        start=asked.start,
        expires_hours=asked.expires_hours,
        repeats=asked.again,
        rate=_rate(asked.method, given["rate"]),
        ticket=asked.typed.get("ticket", "").strip(),
    )


def _rate(method: str, mib: float | None) -> int | None:
    """Return bytes a second; ``None`` without a limit, or for a method without a stream."""
    return None if mib is None or not can_be_held(method) else round(mib * MIB)


def _show(
    request: HttpRequest, target: Instance, asked: PlanQuery, *, refused: Refused | None = None, bad_moment: str = ""
) -> HttpResponse:
    found: Plan | None = None
    no_plan: Refused | None = None
    compared: tuple[MethodComparison, ...] = ()
    try:
        inputs = plan_inputs_for(
            target=target, source=asked.source, keep_old_data=asked.keep, full_certificate=asked.full
        )
        compared = compare(inputs, METHODS.values())
        found = build_plan(inputs, METHODS[asked.method])
    except Refused as error:
        no_plan = error
    sources = candidate_sources(target) if target.role in REPLICAS else []
    cluster = cluster_row(target.cluster)
    row = cluster.of(target)
    wanted = asked.source or next(iter(sources), None)
    chosen = found.source.name if found else wanted.name if wanted else ""
    offered = offered_start_options(target, wanted, method=asked.method, key=asked.start)
    start = offered.chosen(asked.start)
    changes = differences(asked.seen, shown(found, start)) if found else ()
    bad_field = FIELDS.get(refused.code, "") if refused else ""
    start_reasons = start_blocking_reasons(offered, start, asked.start)
    context = {
        "target": target,
        "row": row,
        "source_row": cluster.named(chosen),
        "plan": found,
        "no_plan": no_plan,
        "refused": refused,
        "bad_field": bad_field,
        "focus": "" if changes else bad_field,  # changes are on top and read first
        # The typed name confirmed another plan, so it must be typed again.
        "typed": asked.typed | ({"typed_name": ""} if refused and refused.code == "plan.stale" else {}),
        "findings": found.findings if found else (),
        "impact": impact(found, offered.snapshot, start, cluster.states, method=METHODS[asked.method])
        if found
        else None,
        "prediction": offered.prediction,
        "changes": changes,
        "shown": packed(shown(found, start)) if found else "",
        **{"keep": asked.keep, "full": asked.full},
        "eligibility": offered.eligibility,
        "start": start,
        "named_moment": moment_of(asked.start),
        "bad_moment": bad_moment,
        "expires_hours": asked.typed.get("expires_hours") or default_expires_hours(),
        "expires_bounds": EXPIRES_HOURS,
        "blocking_reasons": blocking_reasons(request, found, row) + again_blocking_reasons(asked.again) + start_reasons,
        # A clear case does not need the other options.
        "starts_open": bool(
            bad_moment or start_reasons or offered.eligibility.answer != "now" or (start and start.is_deferred)
        ),
        "again": asked.again,
        "has_rate": "rate" in asked.typed and can_be_held(asked.method),
        "request_key": uuid.uuid4(),
        **_other_plans(target, asked, chosen, sources, compared, offered.options, start),
    }
    return render(request, "rebuilds/plan.html", context, status=409 if refused else 200)


def _other_plans(
    target: Instance,
    asked: PlanQuery,
    chosen: str,
    sources: list[Instance],
    compared: tuple[MethodComparison, ...],
    options: Iterable[StartOption],
    start: StartOption | None,
) -> dict[str, Any]:
    """Return every choice on the page, each with the URL of its plan, and the need for approval."""

    def url(**values: Any) -> str:
        asked_for = {"source": chosen, "method": asked.method, "keep": asked.keep, "full": asked.full}
        again = asked.again.pk if asked.again else None
        return plan_url(target, **{**asked_for, "start": asked.start, "again": again, **values})

    return {
        "method": asked.method,
        "approval": approval_need(target),
        "ticket_pattern": target.cluster.ticket_pattern,
        "methods": [
            MethodChoice(one, url(method=one.method, start=""), one.method == asked.method) for one in compared
        ],
        "choices": [
            SourceChoice(item.name, item.role, url(source=item.name, start=""), item.name == chosen) for item in sources
        ],
        "keep_url": url(keep=True),
        "aside_url": url(keep=False),
        "full_url": url(full=True),
        "sampled_url": url(full=False),
        "start_options": [_start_choice(item, url, start) for item in options],
    }


def _start_choice(choice: StartOption, url: Callable[..., str], start: StartOption | None) -> StartChoice:
    """Return a start option with its URL. Another source is another plan with its own start options."""
    is_elsewhere = choice.way is StartMode.ELSEWHERE
    address = url(source=choice.source, start="") if is_elsewhere else url(start=choice.key)
    return StartChoice(choice, address, start is choice)


def _source(target: Instance, name: str) -> Instance | None:
    """Return the named instance of the target's cluster, or ``None``."""
    others = Instance.objects.select_related("host", "cluster", "state").filter(cluster=target.cluster_id)
    return others.filter(name=name).exclude(pk=target.pk).first() if name else None


def _method(name: str) -> str:
    return name if name in METHODS else DEFAULT_METHOD
