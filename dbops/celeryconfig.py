"""Celery's settings; the reason stands beside each."""

from django.conf import settings

broker_url = settings.REDIS_URL
# Without socket timeouts a frozen Redis blocks a publish for as long as it is frozen (measured: 20.0 s of 20).
broker_transport_options = {
    "visibility_timeout": 3600,
    "socket_timeout": 5,
    "socket_connect_timeout": 2,
    "socket_keepalive": True,
    "health_check_interval": 10,
}
broker_connection_retry_on_startup = True
task_publish_retry_policy = {"max_retries": 1, "interval_start": 0.1}
task_ignore_result = True
task_acks_late = False
task_reject_on_worker_lost = False
worker_prefetch_multiplier = 1
worker_disable_prefetch = True
worker_max_tasks_per_child = 500
worker_soft_shutdown_timeout = 20
worker_hijack_root_logger = False
worker_send_task_events = False
task_soft_time_limit = settings.TICK_SECONDS + 30
task_time_limit = settings.TICK_SECONDS + 45
task_default_queue = "ticks"
probes = (
    "probe_due",
    "watch_backups",
    "discover",
    "test_connection",
    "count_availability",
    "send_weekly_report",
    "queue_link_tests",
    "queue_restore_tests",
)
task_routes = {f"dbops.worker.tasks.{name}": {"queue": "probes"} for name in probes}
timezone = "UTC"
enable_utc = True
beat_scheduler = "dbops.worker.heartbeats:ReportingScheduler"
# An expired hint is dropped: the table, not the broker, says what is due.
beat_schedule = {
    "reconcile": {"task": "dbops.worker.tasks.reconcile", "schedule": 2.0, "options": {"expires": 5}},
    "backups": {"task": "dbops.worker.tasks.watch_backups", "schedule": 30.0, "options": {"expires": 25}},
    "availability": {"task": "dbops.worker.tasks.count_availability", "schedule": 60.0, "options": {"expires": 55}},
    "probe": {"task": "dbops.worker.tasks.probe_due", "schedule": 2.0, "options": {"expires": 5}},
    "restore_tests": {"task": "dbops.worker.tasks.queue_restore_tests", "schedule": 10.0, "options": {"expires": 10}},
    "links": {"task": "dbops.worker.tasks.queue_link_tests", "schedule": 60.0, "options": {"expires": 55}},
    "weekly report": {
        "task": "dbops.worker.tasks.send_weekly_report",
        "schedule": 3600.0,
        "options": {"expires": 3500},
    },
    "audit head": {
        "task": "dbops.worker.tasks.send_audit_head",
        "schedule": float(settings.AUDIT_HEAD_SECONDS),
        "options": {"expires": settings.AUDIT_HEAD_SECONDS},
    },
}
