"""The pages of the administration, below ``/admin/``. The inventory has addresses of its own."""

from django.urls import path
from django.views.generic import RedirectView

from dbops.web.views import admin, connection_tests, users

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="inventory"), name="admin"),
    path("credentials/", admin.credentials, name="credentials"),
    path("settings/", admin.settings, name="settings"),
    path("tests/", connection_tests.tests, name="tests"),
    path("tests/<int:test_id>/", connection_tests.test, name="test"),
    path("tests/ssh/<str:name>/", connection_tests.ask_ssh, name="test-ssh"),
    path("tests/mysql/<str:name>/", connection_tests.ask_mysql, name="test-mysql"),
    path("tests/stream/", connection_tests.ask_stream, name="test-stream"),
    path("people/", users.people, name="people"),
    path("people/add/", users.add, name="person-add"),
    path("people/<int:user_id>/", users.person, name="person"),
    path("people/<int:user_id>/password/", users.password, name="person-password"),
    path("people/<int:user_id>/deactivate/", users.deactivate, name="person-deactivate"),
    path("people/<int:user_id>/reactivate/", users.reactivate, name="person-reactivate"),
]
