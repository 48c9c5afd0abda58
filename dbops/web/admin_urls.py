"""The pages of the administration, below ``/admin/``. The inventory has addresses of its own."""

from django.urls import path
from django.views.generic import RedirectView

from dbops.web.views import administration, connection_tests, people

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="inventory"), name="admin"),
    path("credentials/", administration.credentials, name="credentials"),
    path("settings/", administration.settings, name="settings"),
    path("tests/", connection_tests.tests, name="tests"),
    path("tests/<int:test_id>/", connection_tests.test, name="test"),
    path("tests/ssh/<str:name>/", connection_tests.ask_ssh, name="test-ssh"),
    path("tests/mysql/<str:name>/", connection_tests.ask_mysql, name="test-mysql"),
    path("tests/stream/", connection_tests.ask_stream, name="test-stream"),
    path("people/", people.people, name="people"),
    path("people/add/", people.add, name="person-add"),
    path("people/<int:user_id>/", people.person, name="person"),
    path("people/<int:user_id>/password/", people.password, name="person-password"),
    path("people/<int:user_id>/deactivate/", people.deactivate, name="person-deactivate"),
    path("people/<int:user_id>/reactivate/", people.reactivate, name="person-reactivate"),
]
