"""Choices of a new load test, and its ready-made A/B tests."""

from django.utils.translation import gettext_lazy as _

from dbops.engine.flavors.prepare import MIB
from dbops.engine.load_tests.request import Raised
from dbops.engine.load_tests.workload import Profile

PRESETS = (
    ("", _("The options below")),
    ("doublewrite", _("Doublewrite: on, off")),
    ("table-caches", _("Table caches: 400, 30,000")),
    ("sync-array", _("innodb_sync_array_size: 1, 16 (MySQL)")),
    ("flush-method", _("Flush method: fsync, O_DIRECT")),
    ("redo", _("Redo capacity: 256 MiB, 2 GiB")),
)
PROFILES = (
    (Profile.READ_WRITE, _("Read and write (sysbench)")),
    (Profile.READ_ONLY, _("Read only (sysbench)")),
    (Profile.WRITE_ONLY, _("Write only (sysbench)")),
    (Profile.POINT_SELECT, _("Point select (sysbench)")),
    (Profile.ROTATING, _("Rotating schemas: own or top statements on copies of a schema")),
    (Profile.INSERT, _("Inserts into one table")),
)
RAISED = (
    (Raised.THREADS, _("Threads")),
    (Raised.RATE, _("Events a second")),
    (Raised.SCHEMAS, _("Schemas (rotating schemas only)")),
    (Raised.NOTHING, _("Nothing: an A/B test of server options")),
)
Options = tuple[tuple[str, str], ...]


def preset(name: str, flavor: str) -> tuple[Options, Options]:
    """Return the options of both arms of a ready-made A/B test."""
    redo = "innodb_log_file_size" if flavor == "mariadb" else "innodb_redo_log_capacity"
    wide = ("table_open_cache", "table_definition_cache", "innodb_open_files")
    return {
        "doublewrite": ((("innodb_doublewrite", "ON"),), (("innodb_doublewrite", "OFF"),)),
        "table-caches": (
            (("table_open_cache", "400"), ("table_definition_cache", "400")),
            # A cache is only as large as the smallest of the four allows.
            (*((name, "30000") for name in wide), ("open_files_limit", "65535")),
        ),
        "sync-array": ((("innodb_sync_array_size", "1"),), (("innodb_sync_array_size", "16"),)),
        "flush-method": ((("innodb_flush_method", "fsync"),), (("innodb_flush_method", "O_DIRECT"),)),
        "redo": (((redo, str(256 * MIB)),), ((redo, str(2048 * MIB)),)),
    }.get(name, ((), ()))
