"""Pages of one backup run: status, stop, mark as failed or ended, restore test."""

from collections.abc import Callable

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST
from django.views.decorators.vary import vary_on_headers

from dbops.engine.errors import Refused
from dbops.models import BackupRun
from dbops.operations import backups as verbs
from dbops.operations.backups import force_fail_run, mark_run_ended, stop_run
from dbops.queries.backups import detail as queries
from dbops.queries.restore_tests import find_restore_test, restore_tests_of
from dbops.web.decorators import operator_page, user_of, viewer_page
from dbops.web.templatetags.phrases import translated


@require_GET
@never_cache
@vary_on_headers("HX-Request")
@viewer_page
def run(request: HttpRequest, run_id: int) -> HttpResponse:
    """Show one run. A poll gets the changing part only, or 204 while the revision is current."""
    is_poll = bool(request.headers.get("HX-Request"))
    if is_poll and request.GET.get("revision") == str(queries.run_revision(run_id)):
        return HttpResponse(status=204)
    found = _find(run_id)
    template = "backups/_run.html" if is_poll else "backups/run.html"
    context = {"page": queries.run_page(found), "run": found, "restore_tests": restore_tests_of(found)}
    return render(request, template, context)


@require_http_methods(["GET", "POST"])
@never_cache
@operator_page
def stop(request: HttpRequest, run_id: int) -> HttpResponse:
    """Confirm with a reason, then request the stop of a run."""
    return _end(request, run_id, stop_run, "backups/stop.html", _("Stop of backup run {} requested."))


@require_http_methods(["GET", "POST"])
@never_cache
@operator_page
def force_fail(request: HttpRequest, run_id: int) -> HttpResponse:
    """Confirm with a reason, then mark a lost run as failed."""
    return _end(request, run_id, force_fail_run, "backups/force_fail.html", _("Backup run {} is marked as failed."))


@require_http_methods(["GET", "POST"])
@never_cache
@operator_page
def mark_ended(request: HttpRequest, run_id: int) -> HttpResponse:
    """Confirm with a reason, then mark an external run as ended."""
    return _end(request, run_id, mark_run_ended, "backups/mark_ended.html", _("Backup run {} is marked as ended."))


@require_POST
@operator_page
def restore_test(request: HttpRequest, run_id: int) -> HttpResponse:
    """Queue a restore test of this backup. A second click finds the first one's restore test."""
    try:
        restore_test = verbs.request_restore_test(_find(run_id), user_of(request))
    except Refused as error:
        messages.error(
            request,
            _("Restore test not started: %(cause)s. %(next_step)s")
            % {"cause": translated(error.cause), "next_step": translated(error.next_step)},
        )
    else:
        messages.success(
            request,
            _("Restore test %(restore_test)s was queued, to start when no other job runs on %(host)s.")
            % {"restore_test": restore_test.pk, "host": restore_test.host.name},
        )
    return redirect("backup-run", run_id=run_id)


@require_http_methods(["GET", "POST"])
@never_cache
@operator_page
def stop_restore_test(request: HttpRequest, restore_test_id: int) -> HttpResponse:
    """Confirm with a reason, then request the stop of a restore test."""
    restore_test, reason = find_restore_test(restore_test_id), request.POST.get("reason", "")
    if restore_test is None:
        raise Http404(_("There is no restore test %(number)s.") % {"number": restore_test_id})
    refused, status = None, 200
    if request.method == "POST":
        try:
            verbs.stop_restore_test(restore_test, user_of(request), reason)
        except Refused as error:
            refused, status = error, 409
            restore_test.refresh_from_db()
        else:
            messages.success(request, _("Stop of restore test %(number)s requested.") % {"number": restore_test_id})
            return redirect("backup-run", run_id=restore_test.run_id)
    context = {"restore_test": restore_test, "refused": refused, "reason": reason}
    return render(request, "backups/restore_test_stop.html", context, status=status)


def _end(
    request: HttpRequest, run_id: int, act: Callable[[BackupRun, User, str], None], template: str, done: str
) -> HttpResponse:
    found, reason = _find(run_id), request.POST.get("reason", "")
    refused, status = None, 200
    if request.method == "POST":
        try:
            act(found, user_of(request), reason)
        except Refused as error:
            refused, status, found = error, 409, _find(run_id)
        else:
            messages.success(request, done.format(run_id))
            return redirect("backup-run", run_id=run_id)
    context = {"page": queries.run_page(found), "run": found, "refused": refused, "reason": reason}
    return render(request, template, context, status=status)


def _find(run_id: int) -> BackupRun:
    found = queries.find_run(run_id)
    if found is None:
        raise Http404(_("There is no backup run %(number)s.") % {"number": run_id})
    return found
