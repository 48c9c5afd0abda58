"""Options that a backup tool took in silence, by recorded logs of XtraBackup 2.4.20."""

from dbops.engine.flavors.failures import known_failure
from dbops.engine.flavors.recognized import ignored_options
from tests.engine.flavors.test_recorded_xtrabackup_2_4_20 import lines


def command() -> list[str]:
    """The command line of the recorded backup, as the tool noted it."""
    [words] = [line for line in lines("xtrabackup_info") if line.startswith("tool_command = ")]
    return ["xtrabackup", *words.removeprefix("tool_command = ").split()]


def test_good_run_recognized_all_of_its_options() -> None:
    assert ignored_options(command(), lines("backup.log")) == []
    assert {word.partition("=")[0] for word in command()[1:]} >= {"--parallel", "--open-files-limit", "--slave-info"}


def test_option_that_the_tool_took_in_silence_is_found() -> None:
    log = lines("unknown-option.log")
    assert known_failure(log) is None
    assert ignored_options(["xtrabackup", "--defaults-file=/f", "--backup", "--no-such-option"], log) == [
        "--no-such-option"
    ]
    assert ignored_options(["xtrabackup", "--no-such-option"], log[2:]) == []


def test_trial_of_the_tool_shows_an_option_that_it_ignores() -> None:
    log = lines("trial-unknown-option.log")
    given = [word for word in command() if not word.startswith(("--user", "--password"))]
    assert ignored_options(given, log) == []
    assert ignored_options([*given, "--no-such-option=1"], log) == ["--no-such-option"]
