"""Rounds that have ended, on rows of load tests."""

from typing import Any

from dbops.engine.facts.instance import to_record
from dbops.engine.load_tests.round_result import RoundResult, Second, WaitShare
from dbops.engine.states import RunStatus
from dbops.models import LoadTest, LoadTestRound
from dbops.queries.load_tests import plan_of
from tests.engine.load_tests.results import latencies, result

WAIT = "wait/synch/rwlock/innodb/dict_operation_lock"


def finish_rounds(load_test: LoadTest, count: int | None = None, **values: Any) -> None:
    """Leave the results of the first rounds, as the driver does. B is 1.5 times as fast as A; a second of each round has stalled."""
    rounds = [_result(one.number, one.arm) for one in plan_of(load_test).rounds[:count]]
    LoadTestRound.objects.bulk_create(
        LoadTestRound(load_test=load_test, number=one.number, result=to_record(one)) for one in rounds
    )
    given = {"status": RunStatus.RUNNING, "revision": load_test.revision + 1}
    LoadTest.objects.filter(pk=load_test.pk).update(**(given | values))


def _result(number: int, arm: str) -> RoundResult:
    values = latencies(3000 if arm == "b" else 2000, seed=number)
    waits = (WaitShare(WAIT, 400, 2.0, 0.2),)
    seconds = (Second(1, 400.0, 0.0, 1.2), Second(2, 0.0, 0.0))
    return result(number, values=values, seconds=seconds, waits=waits, generator_cores=0.4, server_cores=1.1)


def change_rounds(load_test: LoadTest, **values: Any) -> None:
    """Change the results of finished rounds. A callable value gets the number of its round."""
    for row in LoadTestRound.objects.filter(load_test=load_test):
        row.result |= {name: value(row.number) if callable(value) else value for name, value in values.items()}
        row.save()
