"""Pages of backup schedules: list, add, edit, switch, run now, remove and due times."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from dbops.database import clock
from dbops.engine.errors import Refused
from dbops.models import BackupSchedule, Instance
from dbops.operations import schedules as verbs
from dbops.operations.backups import run_now
from dbops.queries.backups import schedules as queries
from dbops.queries.backups.due import due_times_of
from dbops.web.decorators import operator_page, some_operator_page, user_of, viewer_page
from dbops.web.forms.schedules import ScheduleForm
from dbops.web.refusal_texts import refusal_text
from dbops.web.templatetags.phrases import translated


@require_GET
@never_cache
@viewer_page
def schedules(request: HttpRequest) -> HttpResponse:
    """Show the schedules of the fleet."""
    text = request.GET.get("text", "").strip()
    found = queries.schedules(text, request.GET.get("page", "1"))
    return render(request, "schedules/list.html", {"found": found, "page": found.page, "text": text})


@require_GET
@never_cache
@viewer_page
def due(request: HttpRequest) -> HttpResponse:
    """Show the next due times of a cron expression while the form is filled in."""
    times = due_times_of(request.GET.get("cron", ""), request.GET.get("time_zone", ""), clock.now())
    return render(request, "schedules/_due.html", {"due": times})


@require_http_methods(["GET", "POST"])
@never_cache
@some_operator_page
def add(request: HttpRequest) -> HttpResponse:
    """Show an empty form; add the schedule on POST."""
    return _edit(request, None)


@require_http_methods(["GET", "POST"])
@never_cache
@operator_page
def edit(request: HttpRequest, name: str) -> HttpResponse:
    """Show a schedule; save it on POST."""
    return _edit(request, get_object_or_404(BackupSchedule.objects.select_related("instance"), name=name))


@require_POST
@operator_page
def toggle(request: HttpRequest, name: str) -> HttpResponse:
    """Switch a schedule on or off."""
    row = get_object_or_404(BackupSchedule, name=name)
    is_enabled = request.POST.get("to") == "on"
    try:
        verbs.set_enabled(actor=user_of(request), schedule=row, is_enabled=is_enabled)
    except Refused as error:
        messages.error(request, _("%(cause)s. %(next_step)s") % _parts(error))
    else:
        messages.success(
            request,
            (_("Schedule %(name)s switched on.") if is_enabled else _("Schedule %(name)s switched off."))
            % {"name": name},
        )
    return redirect("schedules")


@require_POST
@operator_page
def run(request: HttpRequest, name: str) -> HttpResponse:
    """Queue a backup of a schedule now. A second click finds the first one's run."""
    row = get_object_or_404(BackupSchedule.objects.select_related("instance"), name=name)
    try:
        begun = run_now(row, user_of(request))
    except Refused as error:
        messages.error(request, _("Backup not started: %(cause)s. %(next_step)s") % _parts(error))
        return redirect("schedules")
    messages.success(
        request,
        _("Backup run %(begun)s was queued, to start when %(instance)s is free.")
        % {"begun": begun.pk, "instance": row.instance.name},
    )
    return redirect("backup-run", run_id=begun.pk)


@require_http_methods(["GET", "POST"])
@never_cache
@operator_page
def remove(request: HttpRequest, name: str) -> HttpResponse:
    """Show a confirmation; remove the schedule on POST."""
    row = get_object_or_404(BackupSchedule.objects.select_related("instance"), name=name)
    refused: Refused | None = None
    if request.method == "POST":
        try:
            verbs.remove_schedule(actor=user_of(request), schedule=row)
        except Refused as error:
            refused = error
        else:
            messages.success(request, _("Schedule %(name)s removed. Its backups are kept.") % {"name": name})
            return redirect("schedules")
    return render(request, "schedules/remove.html", {"row": row, "refused": refused}, status=409 if refused else 200)


def _edit(request: HttpRequest, row: BackupSchedule | None) -> HttpResponse:
    form = ScheduleForm(
        request.POST if request.method == "POST" else None, instance=row, initial=_initial(request, row)
    )
    # Without JavaScript a button of the form shows the due times and saves nothing.
    only_show = request.POST.get("action") == "show"
    if request.method == "POST" and form.is_valid() and not only_show:
        try:
            saved = verbs.save_schedule(actor=user_of(request), schedule=row, values=form.values())
        except Refused as error:
            form.add_error(None, refusal_text(error, has_state=True))
        else:
            messages.success(request, _("Schedule %(saved)s saved.") % {"saved": saved.name})
            return redirect("schedules")
    cron, zone = str(form["cron"].value() or ""), str(form["time_zone"].value() or "")
    is_refused = form["cron"].errors or form["time_zone"].errors  # the field says why
    context = {
        "form": form,
        "row": row,
        "due": due_times_of(cron, zone, clock.now()) if cron and not is_refused else None,
        "duration": queries.learned([row])[row.pk] if row else None,
    }
    return render(request, "schedules/edit.html", context, status=422 if form.errors and not only_show else 200)


def _initial(request: HttpRequest, row: BackupSchedule | None) -> dict[str, str]:
    if row is not None:
        return {}
    instance = Instance.objects.filter(name=request.GET.get("instance", "")).first()
    zone = timezone.get_current_timezone_name()
    return {"time_zone": zone} | ({"instance": instance.name, "name": f"{instance.name}-nightly"} if instance else {})


def _parts(error: Refused) -> dict[str, str]:
    return {"cause": translated(error.cause), "next_step": translated(error.next_step)}
