"""Audit sinks. For superusers, because a sink copies the whole log to another system."""

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from dbops.engine.errors import Refused
from dbops.models import AuditSink
from dbops.operations import audit_sinks as verbs
from dbops.queries.audit.sinks import sinks
from dbops.web.decorators import superuser_page, user_of
from dbops.web.forms.audit_sinks import SinkForm
from dbops.web.refusal_texts import refusal_text


@sensitive_post_parameters("token")
@require_http_methods(["GET", "POST"])
@never_cache
@superuser_page
def page(request: HttpRequest) -> HttpResponse:
    """List the sinks; add one on POST."""
    form = SinkForm(request.POST if request.method == "POST" else None)
    if form.is_bound and form.is_valid():
        try:
            sink = verbs.add_sink(actor=user_of(request).get_username(), **form.cleaned_data)
        except Refused as error:
            form.add_error(None, ValidationError(refusal_text(error), code=error.code))
        else:
            messages.success(request, _("Audit sink %(sink)s added.") % {"sink": sink.name})
            return redirect("audit-sinks")
    context = {"form": form, "sinks": sinks()}
    return render(request, "admin/audit_sinks.html", context, status=422 if form.errors else 200)


@require_POST
@superuser_page
def test(request: HttpRequest, sink_id: int) -> HttpResponse:
    """Send a test entry to a sink."""
    entry = verbs.test_sink(actor=user_of(request).get_username(), name=_name(sink_id))
    messages.success(
        request,
        _("Test entry %(number)s written. The table shows when the receiver has it.") % {"number": entry.sequence},
    )
    return redirect("audit-sinks")


@require_http_methods(["GET", "POST"])
@never_cache
@superuser_page
def remove(request: HttpRequest, sink_id: int) -> HttpResponse:
    """Ask for confirmation; remove a sink on POST."""
    name = _name(sink_id)
    if request.method == "POST":
        last = verbs.remove_sink(actor=user_of(request).get_username(), name=name)
        messages.success(
            request,
            _("Audit sink %(name)s removed. Its receiver has the entries up to %(last)s.")
            % {"name": name, "last": last},
        )
        return redirect("audit-sinks")
    return render(request, "admin/audit_sink_remove.html", {"name": name})


def _name(sink_id: int) -> str:
    return get_object_or_404(AuditSink.objects.defer("token"), pk=sink_id).name
