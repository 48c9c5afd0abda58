"""URLs of load tests."""

from django.urls import path

from dbops.web.exports.record import exported
from dbops.web.views import digests, load_test_plan, load_tests

urlpatterns = [
    path("load-tests/", load_tests.load_tests, name="load-tests"),
    path("load-tests/compare/", load_tests.compare, name="load-test-compare"),
    path("load-tests/<int:load_test_id>/", load_tests.load_test, name="load-test"),
    path("load-tests/<int:load_test_id>.json", exported("load test")(load_tests.report_json), name="load-test-json"),
    path("load-tests/<int:load_test_id>.csv", exported("load test")(load_tests.report_csv), name="load-test-csv"),
    path("load-tests/<int:load_test_id>/cancel/", load_tests.cancel, name="load-test-cancel"),
    path("clusters/<str:name>/load-tests/new/", load_test_plan.new, name="load-test-new"),
    path("clusters/<str:name>/load-tests/digests/", digests.digests, name="load-test-digests"),
    path("clusters/<str:name>/load-tests/digests/read/", digests.read, name="load-test-digests-read"),
]
