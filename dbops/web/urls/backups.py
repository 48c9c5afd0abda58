"""URLs of schedules, maintenance, calendars, queues and tokens."""

from django.urls import path

from dbops.web.views import calendars, schedules, tokens

urlpatterns = [
    path("schedules/", schedules.schedules, name="schedules"),
    path("schedules/add/", schedules.add, name="schedule-add"),
    path("schedules/due/", schedules.due, name="schedule-due"),
    path("schedules/<str:name>/edit/", schedules.edit, name="schedule-edit"),
    path("schedules/<str:name>/toggle/", schedules.toggle, name="schedule-toggle"),
    path("schedules/<str:name>/run/", schedules.run, name="schedule-run"),
    path("schedules/<str:name>/remove/", schedules.remove, name="schedule-remove"),
    path("clusters/<str:name>/calendar/", calendars.calendar, name="cluster-calendar"),
    path("clusters/<str:name>/maintenance/", calendars.begin_maintenance, name="maintenance-begin"),
    path(
        "clusters/<str:name>/maintenance/<int:maintenance_id>/end/", calendars.end_maintenance, name="maintenance-end"
    ),
    path("calendar/", calendars.fleet_calendar, name="fleet-calendar"),
    path("queue/", calendars.queue, name="queue"),
    path("tokens/", tokens.tokens, name="tokens"),
    path("tokens/<int:token_id>/revoke/", tokens.revoke, name="token-revoke"),
    path("calendar/windows.ics", tokens.calendar_feed, name="calendar-feed"),
]
