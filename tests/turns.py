"""Files with real servers that have a weekday: `script/test` runs those of today, beside all tests that have none.

They need twice as long as the others. They are about other series, options and databases, shared reads, load tests, and longer
ways through the pages. Try a change of these with its own files; before a release, `script/test all` runs everything.
"""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EVERY = 0
#: From Monday to Sunday. Each needs about 500 s of a processor.
TURNS: tuple[tuple[str, ...], ...] = (
    (
        "tests/databases/test_away.py",
        "tests/e2e/test_digest_load_tests.py",
        "tests/e2e/test_mysql_dump.py",
        "tests/e2e/test_shared_read.py",
        "tests/e2e/test_traces.py",
        "tests/situations/test_galera.py",
        "tests/browser/test_come_back.py",
        "tests/browser/test_firefox.py",
    ),
    (
        "tests/tutorial/test_lessons.py",
        "tests/databases/test_clock.py",
        "tests/databases/test_shared_reads.py",
        "tests/e2e/test_availability.py",
        "tests/e2e/test_mariadb_11_8.py",
        "tests/situations/test_kept_replication_mysql.py",
        "tests/situations/test_tool_options.py",
        "tests/browser/test_log.py",
        "tests/browser/test_watch.py",
        "tests/drivers/test_digest_load.py",
        "tests/drivers/test_load_test_job.py",
        "tests/drivers/test_series.py",
    ),
    (
        "tests/databases/test_app_on_postgresql.py",
        "tests/databases/test_order.py",
        "tests/situations/test_mysql_5_7.py",
        "tests/situations/test_quiet_start.py",
        "tests/browser/test_admin_pages.py",
        "tests/browser/test_figures.py",
        "tests/browser/test_load_tests.py",
        "tests/browser/test_one_read.py",
        "tests/browser/test_windows_calendar.py",
        "tests/deployed/test_bundle.py",
    ),
    (
        "tests/databases/test_app_on_mariadb.py",
        "tests/databases/test_notifications.py",
        "tests/e2e/test_host_certificates.py",
        "tests/e2e/test_mysql_load_tests.py",
        "tests/e2e/test_variants.py",
        "tests/situations/test_certificate_continued.py",
        "tests/situations/test_group_replication.py",
        "tests/situations/test_mysql_keyring.py",
        "tests/browser/test_admin_tests.py",
        "tests/browser/test_second_person.py",
        "tests/deployed/test_start.py",
    ),
    (
        "tests/databases/test_backups.py",
        "tests/databases/test_dying.py",
        "tests/e2e/test_compressed.py",
        "tests/e2e/test_relaxing.py",
        "tests/situations/test_kept_replication.py",
        "tests/situations/test_many_tables.py",
        "tests/situations/test_mysql_8_0.py",
        "tests/browser/test_main_ways.py",
        "tests/drivers/test_load_rounds.py",
        "tests/drivers/test_waits.py",
    ),
    (
        "tests/databases/test_api.py",
        "tests/e2e/test_clone.py",
        "tests/e2e/test_hand_made.py",
        "tests/e2e/test_jump_hosts.py",
        "tests/e2e/test_load_tests.py",
        "tests/e2e/test_throttle.py",
        "tests/situations/test_certificate.py",
        "tests/browser/test_bars.py",
        "tests/browser/test_widths.py",
        "tests/lab/test_interrupted_runs.py",
        "tests/deployed/test_clocks.py",
    ),
    (
        "tests/databases/test_rebuild.py",
        "tests/e2e/test_connection_tests.py",
        "tests/e2e/test_load_generators.py",
        "tests/e2e/test_notifications.py",
        "tests/e2e/test_restore_tests_elsewhere.py",
        "tests/situations/test_stored_data.py",
        "tests/browser/test_many_tabs.py",
        "tests/deployed/test_redis.py",
        "tests/deployed/test_systemd.py",
    ),
)


def left_out(turn: int) -> frozenset[Path]:
    """Return the files that do not run in this turn: 1 is Monday's, and ``EVERY`` leaves out none."""
    if turn == EVERY:
        return frozenset()
    return frozenset(ROOT / file for number, files in enumerate(TURNS, 1) if number != turn for file in files)


def add_option(parser: pytest.Parser) -> None:
    parser.addoption(
        "--turn",
        type=int,
        choices=range(len(TURNS) + 1),
        default=EVERY,
        help="of the files in tests/turns.py run those of this weekday alone: 1 to 7, 0 for all",
    )


def header(config: pytest.Config) -> str | None:
    """Return what a run says of it at its start."""
    turn = config.getoption("--turn")
    return (
        f"turn {turn} of {len(TURNS)}: {len(left_out(turn))} files have another weekday; script/test all runs them"
        if turn
        else None
    )
