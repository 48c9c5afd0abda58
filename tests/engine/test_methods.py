"""What every method must have, whatever it does."""

import pytest

from dbops.engine.methods import DEFAULT_METHOD, FOLLOW_UPS, METHODS, method_named
from dbops.engine.planning.checks import target, topology
from dbops.engine.planning.method import Method
from dbops.engine.rebuilds.steps.finish.clean_up import CleanUp
from dbops.engine.schedule.conflicts import FOR_EVERY_METHOD, Activity

every_method = pytest.mark.parametrize("method", METHODS.values(), ids=list(METHODS))


@every_method
def test_method_keeps_the_conflicts_and_checks_that_protect_the_target(method: Method) -> None:
    assert method.conflicts.items() >= FOR_EVERY_METHOD.items()
    assert method.conflicts.keys() >= set(Activity) - {Activity.NO_COPY}
    assert (Activity.NO_COPY in method.conflicts) is (method.reads.backup is not None)
    assert set(method.checks) >= {*topology.CHECKS, *target.CHECKS}


@every_method
def test_method_ends_with_the_clean_up_and_says_what_it_is(method: Method) -> None:
    assert isinstance(method.steps[-1], CleanUp)
    assert method.summary
    assert method.short
    assert not method.is_follow_up
    assert method.streams or not method.can_share_read
    assert method.no_pause or "pause" in [step.name for step in method.steps]


def test_method_named_knows_all_and_refuses_others() -> None:
    assert DEFAULT_METHOD in METHODS
    assert [method_named(name).name for name in (*METHODS, *FOLLOW_UPS)] == [*METHODS, *FOLLOW_UPS]
    with pytest.raises(KeyError):
        method_named("xbstraem")
