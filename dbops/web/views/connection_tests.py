"""Connection tests: requested here, run by a worker, and polled until they end."""

from collections.abc import Callable
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST
from django.views.decorators.vary import vary_on_headers

from dbops.engine.errors import Refused
from dbops.models import ConnectionTest, Host, Instance
from dbops.operations import connection_tests as verbs
from dbops.queries.admin import connection_tests as queries
from dbops.web.decorators import operator_page, some_operator_page, user_of

GONE = _("It was renamed or removed.")


class StreamForm(forms.Form):
    """Source and target of a stream test."""

    source = forms.ModelChoiceField(
        Host.objects.defer("ssh_private_key"), to_field_name="name", label=_("Source"), empty_label=_("Select a host")
    )
    target = forms.ModelChoiceField(
        Host.objects.defer("ssh_private_key"),
        to_field_name="name",
        label=_("Target"),
        empty_label=_("Select a host"),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"label_suffix": "", **kwargs})
        for item in self.fields.values():
            item.widget.attrs["class"] = "form-select"
            item.error_messages["invalid_choice"] = _("Host not found. It was renamed or removed.")


@require_GET
@never_cache
@some_operator_page
def tests(request: HttpRequest) -> HttpResponse:
    """List the latest tests and show the form of a stream test."""
    initial = {name: request.GET.get(name, "") for name in ("source", "target")}
    return _list(request, StreamForm(initial=initial))


@require_GET
@never_cache
@vary_on_headers("HX-Request")
@some_operator_page
def test(request: HttpRequest, test_id: int) -> HttpResponse:
    """Show one test; a poll gets it without the frame. A finished test is no longer polled."""
    row = get_object_or_404(queries.tests(), pk=test_id)
    template = "connection_tests/_test.html" if request.headers.get("HX-Request") else "connection_tests/test.html"
    return render(request, template, {"test": row})


@require_POST
@some_operator_page
def ask_ssh(request: HttpRequest, name: str) -> HttpResponse:
    """Test SSH to a host."""
    host = get_object_or_404(Host, name=name)
    return _ask(request, lambda: verbs.request_ssh(actor=user_of(request), host=host))


@require_POST
@operator_page
def ask_mysql(request: HttpRequest, name: str) -> HttpResponse:
    """Test the accounts of an instance."""
    instance = get_object_or_404(Instance.objects.select_related("cluster", "host"), name=name)
    return _ask(request, lambda: verbs.request_mysql(actor=user_of(request), instance=instance))


@require_POST
@some_operator_page
def ask_stream(request: HttpRequest) -> HttpResponse:
    """Test the stream between two hosts."""
    form = StreamForm(request.POST)
    if not form.is_valid():
        if request.headers.get("HX-Request"):
            return render(request, "connection_tests/_invalid.html", {"form": form})
        return _list(request, form, status=422)
    given = form.cleaned_data
    return _ask(
        request,
        lambda: verbs.request_stream(actor=user_of(request), source=given["source"], target=given["target"]),
        form,
    )


def _ask(request: HttpRequest, ask: Callable[[], ConnectionTest], form: StreamForm | None = None) -> HttpResponse:
    """Answer with the running test: as a fragment, or as its own page without JavaScript."""
    is_fragment = bool(request.headers.get("HX-Request"))
    try:
        row = ask()
    except Refused as error:
        if is_fragment:  # htmx shows only successful answers
            return render(request, "includes/_error.html", {"error": error.as_record(), "label": _("Cause")})
        if form is not None:
            return _list(request, form, error, status=409)
        raise
    if is_fragment:
        return render(request, "connection_tests/_test.html", {"test": row})
    return redirect("connection-test", test_id=row.pk)


def _list(request: HttpRequest, form: StreamForm, refused: Refused | None = None, status: int = 200) -> HttpResponse:
    context = {"tests": queries.latest(), "form": form, "refused": refused}
    return render(request, "connection_tests/list.html", context, status=status)
