"""What the plan says, and what of it the fingerprint holds still."""

from dataclasses import replace

import pytest

from dbops.engine.errors import Refused
from dbops.engine.facts.instance import from_record, to_record
from dbops.engine.planning.step_estimates import StepHistory
from dbops.engine.rebuilds.plan import Plan
from tests.engine.builders import GIB, datadir, facts, inputs, link, member, server, source_with
from tests.engine.by_name import build_plan


def small_target() -> object:
    return member("replica-1", "replica", 13, facts=facts(13, datadir=datadir(13, free_bytes=5 * GIB)))


def test_plan_survives_json_with_its_fingerprint() -> None:
    plan = build_plan(inputs())
    again = from_record(Plan, to_record(plan))
    assert again == plan
    assert again.fingerprint == plan.fingerprint


def test_fingerprint_ignores_values_that_drift() -> None:
    calm = build_plan(inputs())
    later = inputs(
        source=source_with(redo_bytes_per_second=2000.0, replication=(link(lag_seconds=3.0),)),
        target=member("replica-1", "replica", 13, facts=facts(13, datadir=datadir(13, free_bytes=90 * GIB))),
    )
    assert build_plan(later).fingerprint == calm.fingerprint


@pytest.mark.parametrize(
    "changed",
    [
        lambda: inputs(target=member("replica-1", "replica", 13, facts=facts(13, server=server(99)))),
        lambda: inputs(target=member("replica-1", "replica", 13, facts=facts(13, datadir=datadir(99)))),
        lambda: inputs(source=member("backup-1", "backup", 12, ssh_port=2222)),
        lambda: inputs(keep_old_data=True),
        lambda: inputs(target=small_target()),
    ],
)
def test_fingerprint_changes_with_every_shown_value(changed: object) -> None:
    assert build_plan(changed()).fingerprint != build_plan(inputs()).fingerprint  # type: ignore[operator]


def test_old_data_is_kept_aside_when_space_allows() -> None:
    roomy, tight = build_plan(inputs(run_id="r1")), build_plan(inputs(target=small_target()))
    assert (roomy.old_data, roomy.aside_path) == ("aside", "/var/lib/mysql.dbops-old-r1")
    assert (tight.old_data, tight.aside_path) == ("removed_first", "")
    assert "REMOVED BEFORE" in tight.destroys[0]


def test_aside_path_is_beside_the_real_directory_behind_a_link() -> None:
    """Beside the link it might lie on another file system, and a rename would copy all of it."""
    target = member("replica-1", "replica", 13, facts=facts(13, datadir=datadir(13, path="/data/mysql")))
    plan = build_plan(inputs(target=target, run_id="r1"))
    assert plan.aside_path == "/data/mysql.dbops-old-r1"
    assert all(word in plan.destroys[0] for word in ("/var/lib/mysql", "/data/mysql", "db-13"))


def test_aside_path_is_inside_a_mount_point() -> None:
    target = member("replica-1", "replica", 13, facts=facts(13, datadir=datadir(13, is_mount_point=True)))
    assert build_plan(inputs(target=target, run_id="r1")).aside_path == "/var/lib/mysql/.dbops-old-r1"


def test_plan_contains_no_password() -> None:
    text = str(to_record(build_plan(inputs(replication_user="repl"))))
    assert "MASTER_PASSWORD = '********'" in text


def test_times_are_predicted_from_history_alone() -> None:
    assert build_plan(inputs()).predicted_seconds is None
    history = StepHistory(bytes_per_second={"stream": (GIB / 10,)}, seconds={})
    stream = next(step for step in build_plan(inputs(history=history)).steps if step.name == "stream")
    assert stream.predicted_seconds == pytest.approx(100.0)
    assert (stream.predicted_p90_seconds, stream.predicted_runs) == (None, 1), "one run does not tell what 9 in 10 take"


def test_plan_steps_have_p50_and_p90() -> None:
    rates = (GIB / 10, GIB / 20, GIB / 10, GIB / 30)
    history = StepHistory(bytes_per_second={"stream": rates}, seconds={"start": (4.0, 6.0, 5.0)})
    steps = {step.name: step for step in build_plan(inputs(history=history)).steps}
    stream, start, verify = steps["stream"], steps["start"], steps["verify"]
    assert (stream.predicted_seconds, stream.predicted_p90_seconds) == (pytest.approx(150.0), pytest.approx(300.0))
    assert (start.predicted_seconds, start.predicted_p90_seconds, start.predicted_runs) == (5.0, 6.0, 3)
    assert (verify.predicted_seconds, verify.predicted_p90_seconds, verify.predicted_runs) == (None, None, 0)


def test_plan_pauses_the_source_only_when_needed() -> None:
    assert not build_plan(inputs()).pause_source
    statement = build_plan(inputs(source=source_with(binlog_format="STATEMENT")))
    assert statement.pause_source
    assert "statement-based" in statement.pause_reason


def test_plan_puts_the_slow_cipher_last_when_both_hosts_have_aes() -> None:
    assert build_plan(inputs()).cipher == "aes128-gcm@openssh.com,chacha20-poly1305@openssh.com"


def test_plan_is_refused_without_facts_of_the_source() -> None:
    silent = member("backup-1", "backup", 12, facts=None)
    with pytest.raises(Refused) as raised:
        build_plan(inputs(source=silent))
    assert raised.value.code == "plan.no_facts"
    assert "backup-1" in raised.value.cause


def test_plan_is_possible_when_the_target_does_not_answer() -> None:
    target = inputs().target
    assert target.facts is not None
    dead = replace(target, facts=replace(target.facts, server=None, host=None, datadir=None))
    plan = build_plan(inputs(target=dead))
    assert not plan.target.is_answering
    assert (plan.is_possible, plan.old_data, plan.keep_old_data) == (False, "aside", False)
