"""Every URL of the product."""

from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import LogoutView
from django.urls import include, path, register_converter

from dbops.web.live import events
from dbops.web.views import audit, backup_reports, backup_run, backup_runs, fleet, follow_ups, health, plan, rebuilds
from dbops.web.views.accounts import LoginView

register_converter(follow_ups.MethodConverter, "method")

urlpatterns = [
    path("", fleet.fleet, name="fleet"),
    path("start-view/", fleet.start_view, name="start-view"),
    path("clusters/<str:name>/", fleet.cluster, name="cluster"),
    path("instances/<str:name>/rebuild/", plan.plan, name="plan"),
    path("rebuilds/", rebuilds.rebuilds, name="rebuilds"),
    path("rebuilds/<int:rebuild_id>/", rebuilds.rebuild, name="rebuild"),
    path("rebuilds/<int:rebuild_id>/events/", events, name="rebuild-events"),
    path("rebuilds/<int:rebuild_id>/poll/", rebuilds.poll, name="rebuild-poll"),
    path("rebuilds/<int:rebuild_id>/samples/", rebuilds.rebuild_samples, name="rebuild-samples"),
    path("rebuilds/<int:rebuild_id>/actions/", rebuilds.actions, name="rebuild-actions"),
    path("rebuilds/<int:rebuild_id>/cancel/", rebuilds.cancel, name="rebuild-cancel"),
    path("rebuilds/<int:rebuild_id>/place/", rebuilds.place, name="rebuild-place"),
    path("rebuilds/<int:rebuild_id>/end/", rebuilds.give_up, name="rebuild-give-up"),
    path("rebuilds/<int:rebuild_id>/<method:method>/", follow_ups.follow_up, name="follow-up"),
    path("rebuilds/<int:rebuild_id>/commands/", rebuilds.commands, name="rebuild-commands"),
    path("rebuilds/<int:rebuild_id>/log/", rebuilds.log, name="rebuild-log"),
    path("backups/runs/<int:run_id>/", backup_run.run, name="backup-run"),
    path("backups/runs/<int:run_id>/stop/", backup_run.stop, name="backup-run-stop"),
    path("backups/runs/<int:run_id>/end/", backup_run.give_up, name="backup-run-give-up"),
    path("backups/runs/<int:run_id>/over/", backup_run.over, name="backup-run-over"),
    path("backups/", backup_runs.backup_runs, name="backup-runs"),
    path("api/v1/backup-runs/may-start", backup_reports.may_start, name="api-may-start"),
    *(
        path(f"api/v1/backup-runs/<str:key>/{kind}", backup_reports.report, {"kind": kind}, name=f"api-backup-{kind}")
        for kind in ("start", "heartbeat", "end")
    ),
    path("audit/", audit.audit, name="audit"),
    path("", include("dbops.web.topology_urls")),
    path("inventory/", include("dbops.web.inventory_urls")),
    path("", include("dbops.web.backup_urls")),
    path("login/", LoginView.as_view(), name="login"),
    path("logout/", login_not_required(LogoutView.as_view()), name="logout"),
    path("healthz/", health.healthz, name="healthz"),
    path("status/", health.status, name="status"),
]

handler404 = "dbops.web.views.errors.not_found"
handler500 = "dbops.web.views.errors.server_error"
