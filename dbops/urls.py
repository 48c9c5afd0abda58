"""All URLs of dbops."""

from django.urls import include, path, register_converter

from dbops.web.exports.record import exported
from dbops.web.live.stream import events
from dbops.web.views import (
    approvals,
    attestations,
    audit,
    availability,
    availability_report,
    backup_detail,
    backup_reports,
    backups,
    capacity,
    error_codes,
    evidence,
    fleet,
    follow_ups,
    health,
    lineage,
    plan,
    rate_limit,
    rebuild_group,
    rebuild_log,
    rebuilds,
    row_comparisons,
    shared_reads,
    waits,
    what_if,
)

register_converter(follow_ups.MethodConverter, "method")
register_converter(availability_report.MonthConverter, "month")

urlpatterns = [
    path("", fleet.fleet, name="fleet"),
    path("default-view/", fleet.default_view, name="default-view"),
    path("clusters/<str:name>/", fleet.cluster, name="cluster"),
    path("clusters/<str:name>/rebuild-group/", rebuild_group.group, name="rebuild-group"),
    path("clusters/<str:name>/capacity/", exported("capacity")(capacity.capacity), name="cluster-capacity"),
    path("clusters/<str:name>/capacity/thresholds/", capacity.thresholds, name="capacity-thresholds"),
    path("instances/<str:name>/rebuild/", plan.plan, name="rebuild-plan"),
    path("instances/<str:name>/lineage/", exported("lineage")(lineage.lineage), name="lineage"),
    path("instances/<str:name>/waits/", exported("waits")(waits.waits), name="waits"),
    path("instances/<str:name>/waits/read/", waits.read, name="waits-read"),
    path("instances/<str:name>/attestation/", attestations.attestation, name="attestation"),
    path("rebuilds/", rebuilds.rebuilds, name="rebuilds"),
    path("rebuilds/<int:rebuild_id>/", rebuilds.rebuild, name="rebuild"),
    path("rebuilds/<int:rebuild_id>/events/", events, name="rebuild-events"),
    path("rebuilds/<int:rebuild_id>/poll/", rebuilds.poll, name="rebuild-poll"),
    path("rebuilds/<int:rebuild_id>/samples/", rebuilds.rebuild_samples, name="rebuild-samples"),
    path("rebuilds/<int:rebuild_id>/actions/", rebuilds.actions, name="rebuild-actions"),
    path("rebuilds/<int:rebuild_id>/cancel/", rebuilds.cancel, name="rebuild-cancel"),
    path("rebuilds/<int:rebuild_id>/comparison/", row_comparisons.part, name="rebuild-comparison"),
    path("rebuilds/<int:rebuild_id>/comparison/cancel/", row_comparisons.cancel, name="rebuild-comparison-cancel"),
    path("rebuilds/<int:rebuild_id>/approval/", approvals.approval, name="rebuild-approval"),
    path("rebuilds/<int:rebuild_id>/group/", shared_reads.shared_read, name="rebuild-shared-read"),
    path("rebuilds/<int:rebuild_id>/rate-limit/", rate_limit.rate, name="rebuild-rate-limit"),
    path("rebuilds/<int:rebuild_id>/queue-position/", rebuilds.queue_position, name="rebuild-queue-position"),
    path("rebuilds/<int:rebuild_id>/force-fail/", rebuilds.force_fail, name="rebuild-force-fail"),
    path("rebuilds/<int:rebuild_id>/<method:method>/", follow_ups.follow_up, name="follow-up"),
    path("rebuilds/<int:rebuild_id>/commands/", rebuilds.commands, name="rebuild-commands"),
    path("rebuilds/<int:rebuild_id>/evidence/", evidence.evidence, name="rebuild-evidence"),
    path("rebuilds/<int:rebuild_id>/log/", rebuild_log.log, name="rebuild-log"),
    path("rebuilds/<int:rebuild_id>/log/lines/", rebuild_log.lines, name="rebuild-log-lines"),
    path("rebuilds/<int:rebuild_id>/log/matches/", rebuild_log.matches, name="rebuild-log-matches"),
    path("rebuilds/<int:rebuild_id>/log/text/", rebuild_log.text, name="rebuild-log-text"),
    path("backups/runs/<int:run_id>/", backup_detail.run, name="backup-run"),
    path("backups/runs/<int:run_id>/stop/", backup_detail.stop, name="backup-run-stop"),
    path("backups/runs/<int:run_id>/force-fail/", backup_detail.force_fail, name="backup-run-force-fail"),
    path("backups/runs/<int:run_id>/mark-ended/", backup_detail.mark_ended, name="backup-run-mark-ended"),
    path("backups/runs/<int:run_id>/restore-test/", backup_detail.restore_test, name="backup-run-restore-test"),
    path(
        "backups/restore-tests/<int:restore_test_id>/stop/", backup_detail.stop_restore_test, name="restore-test-stop"
    ),
    path("backups/", backups.backup_runs, name="backup-runs"),
    path("backups/history/", backups.history, name="backup-history"),
    path("api/v1/backup-runs/may-start", backup_reports.may_start, name="api-may-start"),
    *(
        path(f"api/v1/backup-runs/<str:key>/{kind}", backup_reports.report, {"kind": kind}, name=f"api-backup-{kind}")
        for kind in ("start", "heartbeat", "end")
    ),
    path("api/v1/", include("dbops.web.api.root")),
    path("availability/", exported("availability")(availability.availability), name="availability"),
    path("availability/report/<month:first>/", availability_report.fleet, name="availability-report"),
    path("availability/report/<month:first>/<str:name>/", availability_report.cluster, name="cluster-report"),
    path("availability/<str:name>/", exported("availability")(availability.cluster), name="cluster-availability"),
    path("availability/<str:name>/what-if/", exported("availability")(what_if.page), name="what-if"),
    path("availability/<str:name>/maintenance/", availability.mark, name="maintenance-mark"),
    path(
        "availability/<str:name>/maintenance/<int:maintenance_id>/remove/",
        availability.unmark,
        name="maintenance-unmark",
    ),
    path("audit/", audit.audit, name="audit"),
    path("audit/<int:sequence>/", audit.entry, name="audit-entry"),
    path("audit/verify/", audit.verify, name="audit-verify"),
    path("audit/export/", audit.export, name="audit-export"),
    path("", include("dbops.web.urls.topology")),
    path("admin/", include("dbops.web.urls.admin")),
    path("inventory/", include("dbops.web.urls.inventory")),
    path("", include("dbops.web.urls.backups")),
    path("", include("dbops.web.urls.load_tests")),
    path("errors/", error_codes.error_codes, name="error-codes"),
    path("", include("dbops.web.urls.login")),
    path("healthz/", health.healthz, name="healthz"),
    path("healthz/worker/", health.process, {"name": "worker"}, name="healthz-worker"),
    path("healthz/beat/", health.process, {"name": "beat"}, name="healthz-beat"),
    path("metrics", health.metrics, name="metrics"),
    path("status/", health.status, name="status"),
]

handler404 = "dbops.web.views.errors.not_found"
handler500 = "dbops.web.views.errors.server_error"
