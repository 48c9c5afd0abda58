"""Show the plan of a load test, and request exactly that plan on confirmation."""

import uuid
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from django.core import signing
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from dbops.engine.errors import Refused
from dbops.engine.facts.instance import from_record, to_record
from dbops.engine.load_tests.plan import LoadTestPlan
from dbops.engine.load_tests.request import LoadTestRequest
from dbops.engine.phrases import phrase
from dbops.models import Cluster
from dbops.operations.load_tests import plan_load_test, request_load_test
from dbops.queries.load_test_pages import LoadTestChoices, choices_of
from dbops.web.decorators import user_of, viewer_page
from dbops.web.forms.load_tests import LoadTestForm, LongTexts
from dbops.web.forms.tidb_load_tests import TidbLoadTestForm
from dbops.web.load_test_commands import commands_of
from dbops.web.load_test_tables import plan_differences, planned_steps
from dbops.web.templatetags.phrases import translated

#: The form field that fixes a refusal, by code.
FIELDS = {"load_test.name": "typed_name", "load_test.reason": "reason"}
#: Maximum length of input that is shown again, and of what a form carries.
TYPED_CHARACTERS, MOST_KEPT, MOST_SHOWN = 2000, 2_000_000, 60_000
KEPT_SALT, SHOWN_SALT = "dbops.load-test.texts", "dbops.load-test.shown-plan"


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What a person typed, and the plan that they saw."""

    typed: dict[str, str] = field(default_factory=dict)
    seen: LoadTestPlan | None = None
    refused: Refused | None = None


@require_http_methods(["GET", "POST"])
@never_cache
@viewer_page
def new(request: HttpRequest, name: str) -> HttpResponse:
    """Show the form and, of the choices in the URL, the plan. POST shows the plan of long texts, or requests a confirmed plan."""
    cluster = get_object_or_404(Cluster, name=name)
    if request.method == "GET":
        return _show(request, _form(cluster, request.GET))
    kept = _unpacked_texts(request.POST.get("kept", ""))
    if "fingerprint" in request.POST:
        return _confirm(request, _form(cluster, request.GET, kept=kept))
    form = _form(cluster, request.POST, request.FILES, kept=kept)
    if form.is_valid() and not form.long_texts():
        return redirect(f"{_url(form)}#plan")
    return _show(request, form)


def _form(cluster: Cluster, given: QueryDict, files: Any = None, *, kept: LongTexts | None = None) -> LoadTestForm:
    choices = choices_of(cluster, given.get("source", ""))
    kind = TidbLoadTestForm if choices.is_tidb else LoadTestForm
    return kind(choices, given, files, kept=kept)


def _confirm(request: HttpRequest, form: LoadTestForm) -> HttpResponse:
    given = request.POST
    typed = {name: given.get(name, "")[:TYPED_CHARACTERS] for name in FIELDS.values()}
    seen = _unpacked_plan(given.get("shown", ""), given["fingerprint"])
    try:
        if not form.is_valid():
            raise Refused.unchanged(
                "load_test.request", phrase("Requesting a load test"), phrase("the form is incomplete")
            )
        load_test = request_load_test(
            actor=user_of(request),
            request=_request(form),
            typed_name=typed["typed_name"].strip(),
            reason=typed["reason"],
            fingerprint=given["fingerprint"][:64],
            request_key=given.get("request_key", "")[:64] or uuid.uuid4().hex,
        )
    except Refused as error:
        return _show(request, form, Confirmation(typed, seen, error))
    return redirect("load-test", load_test_id=load_test.pk)


def _request(form: LoadTestForm) -> LoadTestRequest:
    return form.request(_flavor(form.choices))


def _flavor(choices: LoadTestChoices) -> str:
    server = facts.server if choices.source and (facts := choices.source.state.facts()) else None
    return server.flavor if server else ""


def _show(request: HttpRequest, form: LoadTestForm, confirmation: Confirmation | None = None) -> HttpResponse:
    confirmation = confirmation or Confirmation()
    found, no_plan, wanted = _plan(form)
    refused = confirmation.refused
    bad_field = FIELDS.get(refused.code, "") if refused else ""
    changes = plan_differences(confirmation.seen, found) if confirmation.seen and found else []
    texts = form.long_texts() if form.is_valid() else form.kept
    context = {
        "cluster": form.choices.cluster,
        "form": form,
        "plan": found,
        "no_plan": no_plan,
        "refused": refused,
        "changes": changes,
        "bad_field": bad_field,
        "focus": "" if changes else bad_field,
        # The typed name confirmed another plan, so it must be typed again.
        "typed": confirmation.typed | ({"typed_name": ""} if refused and refused.code == "load_test.stale" else {}),
        "planned_steps": planned_steps(found) if found else [],
        "commands": commands_of(found, wanted.workload) if found and wanted else [],
        "statements": len(texts.statements),
        "kept": _packed_texts(texts),
        "shown": _packed_plan(found) if found else "",
        "blocking_reasons": blocking_reasons(request, found),
        "request_key": uuid.uuid4().hex,
        "url": _url(form),
    }
    bad = 409 if refused else 422 if form.errors else 200
    return render(request, "load_tests/new.html", context, status=bad)


def _plan(form: LoadTestForm) -> tuple[LoadTestPlan | None, Refused | None, LoadTestRequest | None]:
    """Return the plan of a form's choices, or why there is none."""
    if not form.is_valid():
        return None, None, None
    wanted = _request(form)
    try:
        return plan_load_test(wanted), None, wanted
    except Refused as error:
        return None, error, wanted


def blocking_reasons(request: HttpRequest, found: LoadTestPlan | None) -> list[tuple[str, str]]:
    """Return code and text of each reason why the plan cannot be confirmed now."""
    reasons = []
    if not request.may_operate:  # type: ignore[attr-defined]
        reasons.append(("access", _("You have read access. Only operators can start a load test.")))
    if found:
        reasons += [(one.code, translated(one.text)) for one in found.refusals]
    return reasons


def _url(form: LoadTestForm) -> str:
    query = form.query
    address = reverse("load-test-new", args=[form.choices.cluster.name])
    return f"{address}?{urlencode(query)}" if query else address


def _packed_texts(texts: LongTexts) -> str:
    """Return long texts signed and compressed, for a form field; empty if there are none, or too many."""
    text = signing.dumps(to_record(texts), salt=KEPT_SALT, compress=True) if texts else ""
    return text if len(text) <= MOST_KEPT else ""


def _unpacked_texts(text: str) -> LongTexts | None:
    try:
        return from_record(LongTexts, signing.loads(text, salt=KEPT_SALT)) if text else None
    except (signing.BadSignature, TypeError, ValueError, KeyError):
        return None  # not ours, or of another version


def _packed_plan(plan: LoadTestPlan) -> str:
    text = signing.dumps(to_record(plan), salt=SHOWN_SALT, compress=True)
    return text if len(text) <= MOST_SHOWN else ""


def _unpacked_plan(text: str, fingerprint: str) -> LoadTestPlan | None:
    """Return the plan that the form showed, for display only; ``None`` if it is missing or another one."""
    if not text or len(text) > MOST_SHOWN:
        return None
    try:
        seen = from_record(LoadTestPlan, signing.loads(text, salt=SHOWN_SALT))
    except (signing.BadSignature, TypeError, ValueError, KeyError):
        return None
    return seen if seen.fingerprint == fingerprint else None
