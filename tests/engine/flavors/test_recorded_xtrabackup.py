"""XtraBackup 2.4, 8.0 and 8.4 by what was recorded of them (``tests/engine/recorded``): command lines, logs, failures, metadata files."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from dbops.engine.flavors import Flavor, flavor_for
from dbops.engine.flavors.base import Checkpoints, Coordinates
from dbops.engine.flavors.failures import known_failure
from dbops.engine.flavors.prepare_progress import PrepareProgress, prepare_progress
from dbops.engine.tuning.prepare import PrepareReason, choose
from tests.engine.flavors.test_commands import REQUEST

#: What servers, tools and scripts say or get: recorded, not worded here.
BINLOG = "filename 'binlog.000001', position '577'"

RECORDED = Path(__file__).parents[1] / "recorded"
GIB = 1024**3


@dataclass(frozen=True, slots=True)
class Series:
    """``name`` is of the tool, ``server`` that with which it was recorded."""

    name: str
    server: str
    tool: str

    @property
    def flavor(self) -> Flavor:
        return flavor_for(self.server)

    @property
    def folder(self) -> Path:
        return RECORDED / f"xtrabackup-{self.name}"

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()

    def lines(self, name: str) -> list[str]:
        return self.text(name).splitlines()

    def with_header(self, line: str) -> str:
        """The line as in a log; a line with a header or a program's name before it is unchanged."""
        header = self.text("header.txt").rstrip("\n")
        return line if line.startswith(("2", "[", "xtrabackup", "InnoDB")) else header + line


OLD, MIDDLE, NEW = (
    Series("2.4", "5.7.42", "2.4.9"),
    Series("8.0", "8.0.46", "8.0.35-30"),
    Series("8.4", "8.4.10", "8.4.0-5"),
)
EACH = [
    pytest.param(OLD, id="2.4", marks=pytest.mark.recorded("MySQL 5.7", "xbstream")),
    pytest.param(MIDDLE, id="8.0", marks=pytest.mark.recorded("MySQL 8.0", "xbstream")),
    pytest.param(NEW, id="8.4", marks=pytest.mark.recorded("MySQL 8.4", "xbstream")),
]
PREPARED = [
    pytest.param(OLD, id="2.4", marks=pytest.mark.recorded("MySQL 5.7", "archive")),
    pytest.param(MIDDLE, id="8.0", marks=pytest.mark.recorded("MySQL 8.0", "archive")),
    pytest.param(NEW, id="8.4", marks=pytest.mark.recorded("MySQL 8.4", "archive")),
]
BACKED_UP = [
    pytest.param(OLD, id="2.4", marks=pytest.mark.recorded("MySQL 5.7", "backup")),
    pytest.param(MIDDLE, id="8.0", marks=pytest.mark.recorded("MySQL 8.0", "backup")),
    pytest.param(NEW, id="8.4", marks=pytest.mark.recorded("MySQL 8.4", "backup")),
]
CODES = {
    "server-down": "backup.connect",
    "server-refused": "backup.connect",
    "bad-password": "backup.access_denied",
    "privilege": "backup.privilege",
    "reader-gone": "stream.broken_pipe",
    "redo-overrun": "backup.redo_overrun",
    "redo-disabled": "backup.redo_disabled",
    "schema-change": "backup.schema_change",
    "lock-wait": "backup.lock_wait",
    "open-files": "backup.open_files",
    "parallel-without-gtid": "backup.parallel_without_gtid",
    "directory": "backup.permission",
    "another-series": "backup.version",
    "another-series-newer": "backup.version",
    "defaults-file-not-first": "backup.option",
    "unknown-option": "backup.option",
    "prepare-another-series": "backup.version",
    "prepare-nothing": "prepare.no_backup",
    "unpack-cut": "stream.truncated",
    "unpack-garbage": "stream.garbage",
    "unpack-exists": "stream.create_failed",
    "unpack-disk-full": "stream.disk_full",
}
#: XtraBackup 2.4 cannot log in to 8.0: it says so before it can say that it does not fit.
EXCEPTIONS = {("2.4", "another-series"): "backup.auth_plugin"}
FAILURES = [
    pytest.param(series, file.stem, id=f"{series.name}-{file.stem}")
    for series in (OLD, MIDDLE, NEW)
    for file in sorted((series.folder / "failures").glob("*.log"))
]


def names(words: list[str]) -> set[str]:
    """The options of a command line without their values."""
    return {word.partition("=")[0] for word in words if word.startswith("-")}


@pytest.mark.parametrize("series", EACH)
def test_commands_use_only_options_of_the_tool(series: Series) -> None:
    """2.4.9 swallows an unknown option without a word, 8.x ends at it."""
    has, lacks = set(series.lines("options.txt")), set(series.lines("options-absent.txt"))
    assert not has & lacks
    for open_files_limit in (0, 5000):
        for socket in ("", "/run/mysqld/mysqld.sock"):
            for slave_info in (True, False):
                request = replace(REQUEST, socket=socket, slave_info=slave_info, open_files_limit=open_files_limit)
                assert names(series.flavor.backup_command("xtrabackup", request)[1:]) <= has
    unpack = series.flavor.unpack_command("xbstream", "/d", parallel=4)[1:]
    assert names(unpack) <= set(series.lines("unpack-options.txt"))


@pytest.mark.parametrize("series", [MIDDLE, NEW], ids=["8.0", "8.4"])
def test_compressing_tools_have_the_options_at_both_ends(series: Series) -> None:
    words = series.flavor.backup_command("xtrabackup", replace(REQUEST, compress_threads=3))
    assert {"--compress=zstd", "--compress-threads=3", "--compress-zstd-level=1"} <= set(words)
    assert names(words[1:]) <= set(series.lines("options.txt"))
    unpack = series.flavor.unpack_command("xbstream", "/d", parallel=4, expand=True)
    assert unpack[-1] == "--decompress"
    assert names(unpack[1:]) <= set(series.lines("unpack-options.txt"))


def test_compress_problem_is_empty_only_for_one_pass_releases() -> None:
    problems = {series.name: series.flavor.compress_problem(series.tool, series.tool) for series in (OLD, MIDDLE, NEW)}
    assert all(word in problems["2.4"] for word in ("2.4.9", "source", "zstd"))
    assert all(word in problems["8.0"] for word in ("8.0.35-30", "target"))
    assert problems["8.4"] == ""


def test_parse_backup_line_reads_a_compressed_file() -> None:
    parsed = [MIDDLE.flavor.parse_backup_line(line) for line in MIDDLE.lines("backup-compressed.log")]
    assert [(line.kind, line.path) for line in parsed] == [("file", "./mysql/reparent_journal.ibd")] * 2


@pytest.mark.parametrize("series", PREPARED)
@pytest.mark.parametrize("cores", [1, 8, 96])
def test_prepare_command_uses_only_options_of_the_tool(series: Series, cores: int) -> None:
    ground = PrepareReason(free_bytes=64 * GIB, cpu_count=cores, redo_capacity_bytes=GIB)
    chosen = choose(series.flavor.prepare_habits(series.tool), ground)
    command = series.flavor.prepare_command(
        "xtrabackup", "/d", memory_bytes=chosen.memory_bytes, options=chosen.options
    )
    assert names(command[1:]) <= set(series.lines("options.txt"))


@pytest.mark.parametrize("series", [OLD, MIDDLE], ids=["2.4", "8.0"])
def test_parse_tool_version_fits_its_server(series: Series) -> None:
    version = series.flavor.parse_tool_version(series.text("version.txt"))
    assert version == series.tool
    assert series.flavor.tool_problem(version) == ""


@pytest.mark.parametrize("series", EACH)
def test_parse_backup_line_reads_a_good_log(series: Series) -> None:
    for lines in (series.lines("backup.log"), [series.with_header(line) for line in series.lines("backup.log")]):
        parsed = [series.flavor.parse_backup_line(line) for line in lines]
        assert [line.text for line in parsed if line.kind == "error"] == []
        assert [line.kind for line in parsed].count("completed") == 1
        assert parsed[-1].kind == "completed"
        assert "./lab/t1.ibd" in [line.path for line in parsed if line.kind == "file"]
        assert [line.lsn for line in parsed if line.kind == "redo"] == [107889581 if series is not OLD else 86639732]
        milestones = "\n".join(line.text for line in parsed if line.kind == "milestone")
        for text in (
            "Using server version",
            "Generating a list of tablespaces",
            "Starting 2 threads for parallel data files transfer",
            "Starting to backup non-InnoDB tables and files",
            "The latest check point (for incremental)",
            "All tables unlocked",
            "was copied.",
            "FLUSH TABLES WITH READ LOCK" if series is OLD else "LOCK INSTANCE FOR BACKUP",
        ):
            assert text in milestones
        assert known_failure(lines) is None


@pytest.mark.parametrize("series", PREPARED)
def test_parse_prepare_line_reads_progress_and_completion(series: Series) -> None:
    lines = series.lines("prepare.log")
    parsed = [series.flavor.parse_prepare_line(line) for line in lines]
    assert [line.text for line in parsed if line.kind == "error"] == []
    assert parsed[-1].kind == "completed"
    percents = [line.percent for line in parsed if line.percent is not None]
    assert percents == ([2.0] if series is OLD else [10.0, 100.0])
    assert known_failure(lines) is None
    if series is not OLD:
        assert [(line.kind, line.done) for line in parsed][0] == ("recovery", 2248780800)
        begun = PrepareProgress(begin_lsn=2248780800 - 300)
        assert prepare_progress(series.flavor, lines, begun, last_lsn=2248780800 + 100).percent == 75.0


@pytest.mark.parametrize(("series", "name"), FAILURES)
def test_known_failure_finds_the_code_after_any_header(series: Series, name: str) -> None:
    code = EXCEPTIONS.get((series.name, name), CODES[name])
    lines = series.lines(f"failures/{name}.log")
    for log in (lines, [series.with_header(line) for line in lines]):
        found = known_failure(["Using server version 5.7.42", *log])
        assert found is not None
        assert found.code == code


def test_recorded_failures_all_have_a_code() -> None:
    assert {failure.values[1] for failure in FAILURES} == set(CODES)


@pytest.mark.parametrize("series", [MIDDLE, NEW], ids=["8.0", "8.4"])
def test_known_failure_ignores_lines_of_good_runs(series: Series) -> None:
    lines = series.lines("harmless.log")
    assert lines
    assert known_failure(lines) is None
    assert {series.flavor.parse_backup_line(line).kind for line in lines} == {"other"}


@pytest.mark.parametrize("series", BACKED_UP)
def test_checkpoints_are_read_before_and_after_the_prepare(series: Series) -> None:
    low, high = (86639723, 86639732) if series is OLD else (107889581, 107891695)
    before = series.flavor.parse_checkpoints(series.text("xtrabackup_checkpoints"))
    assert before == Checkpoints("full-backuped", low, high)
    after = series.flavor.parse_checkpoints(series.text("xtrabackup_checkpoints-prepared"))
    assert after.backup_type == series.flavor.prepared_type


@pytest.mark.parametrize("series", BACKED_UP)
def test_parse_info_reads_the_summary_with_a_two_line_set(series: Series) -> None:
    """2.4 writes the GTID set with real line ends into this file too."""
    keys = series.lines("xtrabackup_info.keys")
    texts = {key: f"value of {key}" for key in keys}
    texts["binlog_pos"] = "filename 'binlog.000001', position '577', GTID of the last change 'a:1,\nb:1-17'"
    info = series.flavor.parse_info("\n".join(f"{key} = {value}" for key, value in texts.items()) + "\n")
    for value, key in (
        (info.uuid, "uuid"),
        (info.tool_version, "tool_version"),
        (info.server_version, "server_version"),
        (info.tool_command, "tool_command"),
        (info.start_time, "start_time"),
        (info.to_lsn, "innodb_to_lsn"),
    ):
        assert value == f"value of {key}"
    assert info.binlog_pos.startswith(BINLOG)


def test_parse_info_reads_the_recorded_line_unchanged() -> None:
    text = MIDDLE.text("xtrabackup_info.binlog_pos")
    assert f"binlog_pos = {MIDDLE.flavor.parse_info(text).binlog_pos}" == text.strip()


@pytest.mark.parametrize(
    ("series", "name", "expected"),
    [
        (OLD, "", Coordinates("binlog.000002", 23810698, "8f84f270-e51e-11f1-9a6c-02fc00000001:1-16")),
        (
            OLD,
            "-two-uuids",
            Coordinates(
                "binlog.000001",
                577,
                "1fc756c3-e51e-11f1-9a6c-02fc00000001:1,8f84f270-e51e-11f1-9a6c-02fc00000001:1-17",
            ),
        ),
        (MIDDLE, "", Coordinates("binlog.000003", 197, "90b38aa6-e51e-11f1-9a6c-02fc00000001:1-19")),
        (MIDDLE, "-without-gtid", Coordinates("binlog.000010", 237)),
        *(
            (
                series,
                "-two-uuids",
                Coordinates(
                    "binlog.000007",
                    237,
                    "206d7afa-e51e-11f1-9a6c-02fc00000001:1,90b38aa6-e51e-11f1-9a6c-02fc00000001:1-20",
                ),
            )
            for series in (MIDDLE, NEW)
        ),
    ],
)
def test_parse_binlog_info_reads_the_whole_position(series: Series, name: str, expected: Coordinates) -> None:
    assert series.flavor.parse_binlog_info(series.text(f"xtrabackup_binlog_info{name}")) == expected
