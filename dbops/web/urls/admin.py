"""URLs of the administration, below ``/admin/``. The inventory has its own URLs."""

from django.urls import path
from django.views.generic import RedirectView

from dbops.web.views import admin, audit_sinks, connection_tests, notifications, users

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="inventory"), name="admin"),
    path("credentials/", admin.credentials, name="credentials"),
    path("credentials/vault/", admin.vault, name="vault"),
    path("settings/", admin.settings, name="settings"),
    path("connection-tests/", connection_tests.tests, name="connection-tests"),
    path("connection-tests/<int:test_id>/", connection_tests.test, name="connection-test"),
    path("connection-tests/ssh/<str:name>/", connection_tests.ask_ssh, name="connection-test-ssh"),
    path("connection-tests/mysql/<str:name>/", connection_tests.ask_mysql, name="connection-test-mysql"),
    path("connection-tests/stream/", connection_tests.ask_stream, name="connection-test-stream"),
    path("audit-sinks/", audit_sinks.page, name="audit-sinks"),
    path("audit-sinks/<int:sink_id>/test/", audit_sinks.test, name="audit-sink-test"),
    path("audit-sinks/<int:sink_id>/remove/", audit_sinks.remove, name="audit-sink-remove"),
    path("notifications/", notifications.page, name="notifications"),
    path("notifications/log/", notifications.log, name="notification-log"),
    path("notifications/channels/add/", notifications.add_channel, name="notification-channel-add"),
    path("notifications/channels/<int:channel_id>/test/", notifications.test, name="notification-channel-test"),
    path(
        "notifications/channels/<int:channel_id>/remove/",
        notifications.remove_channel,
        name="notification-channel-remove",
    ),
    path("notifications/channels/<int:channel_id>/rotate/", notifications.rotate, name="notification-secret-rotate"),
    path("notifications/rules/add/", notifications.add_rule, name="notification-rule-add"),
    path("notifications/rules/<int:rule_id>/remove/", notifications.remove_rule, name="notification-rule-remove"),
    path("users/", users.users, name="users"),
    path("users/add/", users.add, name="user-add"),
    path("users/<int:user_id>/", users.user, name="user"),
    path("users/<int:user_id>/password/", users.password, name="user-password"),
    path("users/<int:user_id>/roles/", users.roles, name="user-roles"),
    path("users/<int:user_id>/deactivate/", users.deactivate, name="user-deactivate"),
    path("users/<int:user_id>/reactivate/", users.reactivate, name="user-reactivate"),
    path("users/<int:user_id>/reset-factors/", users.reset_factors, name="user-reset-factors"),
    path("users/<int:user_id>/end-sessions/", users.end_sessions, name="user-end-sessions"),
]
