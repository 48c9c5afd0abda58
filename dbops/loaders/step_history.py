"""Load step durations of past rebuilds, of one cluster and of all others."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import BooleanField, Case, F, Q, QuerySet, TextField, Value, When
from django.db.models import Window as Over
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import RowNumber

from dbops.engine.methods import METHODS
from dbops.engine.planning.step_estimates import STEP_BY_AGE, DoneStep, PastRebuild, StepHistory, history_of
from dbops.engine.rebuilds.follow_ups import RESUME
from dbops.engine.schedule.backup_windows import LEARNED_RUNS
from dbops.engine.states import Status, StepState
from dbops.models import Rebuild, RebuildStep

#: Values of a JSON null or a missing key, by database.
NOTHING = (None, "", "null")


@dataclass(frozen=True, slots=True)
class StepHistories:
    """Measured rebuilds by method, of the cluster and of all other clusters."""

    own: dict[str, StepHistory] = field(default_factory=dict)
    others: dict[str, StepHistory] = field(default_factory=dict)


@dataclass(slots=True)
class _Read:
    """One rebuild's measurements by step."""

    method: str
    is_own: bool
    bytes: int | None
    is_retry: bool
    taken_at: datetime | None = None
    steps: list[DoneStep] = field(default_factory=list)

    def past(self) -> PastRebuild:
        return PastRebuild(tuple(self.steps), self.bytes, self.taken_at, self.is_retry)


def step_histories_of(cluster_id: int) -> StepHistories:
    """Return the durations of recent successful rebuilds, by the method that made the copy. One query.

    A resume counts for the method whose copy it continues.
    """
    read: dict[int, _Read] = {}
    for pk, name, began, ended, method, copied_by, is_own, copied, taken_at in _steps(cluster_id):
        made_by = copied_by if method == RESUME else method
        if made_by not in METHODS or not (began and ended):
            continue
        one = read.setdefault(pk, _Read(made_by, bool(is_own), _number(copied), is_retry=method == RESUME))
        one.steps.append(DoneStep(name, began, ended))
        if taken_at not in NOTHING:
            one.taken_at = datetime.fromisoformat(taken_at)
    return StepHistories(
        _by_method(one for one in read.values() if one.is_own),
        _by_method(one for one in read.values() if not one.is_own),
    )


def _steps(cluster_id: int) -> Iterable[tuple[Any, ...]]:
    """Return the steps of the selected rebuilds, newest rebuild first."""
    plan = "rebuild__plan"
    rows = RebuildStep.objects.filter(state=StepState.DONE, rebuild__in=_last(cluster_id).values("pk"))
    # Plans are large: read them only if they can contain the value.
    return (
        rows.annotate(
            copied_by=_where(Q(rebuild__method=RESUME), KeyTextTransform("copied_by", plan)),
            is_own=_is_own(cluster_id, "rebuild__target__cluster"),
            copied=KeyTextTransform("stream.bytes", "rebuild__checkpoint"),
            taken_at=_where(Q(name=STEP_BY_AGE), KeyTextTransform("taken_at", KeyTransform("archive", plan))),
        )
        .order_by("-rebuild__finished_at", "-rebuild", "position")
        .values_list(
            *("rebuild", "name", "started_at", "finished_at"),
            *("rebuild__method", "copied_by", "is_own", "copied", "taken_at"),
        )
    )


def _last(cluster_id: int) -> QuerySet[Rebuild]:
    """Return the last ``LEARNED_RUNS`` successful rebuilds per method of this cluster, and as many of others."""
    place = Over(
        RowNumber(),
        partition_by=[_is_own(cluster_id, "target__cluster"), F("method")],
        order_by=F("finished_at").desc(),
    )
    done = Rebuild.objects.filter(status=Status.SUCCEEDED, method__in=(*METHODS, RESUME), finished_at__isnull=False)
    return done.order_by().annotate(place=place).filter(place__lte=LEARNED_RUNS)


def _where(holds: Q, text: KeyTextTransform) -> Case:
    return Case(When(holds, then=text), default=Value(""), output_field=TextField())


def _is_own(cluster_id: int, path: str) -> Case:
    return Case(When(Q(**{path: cluster_id}), then=Value(True)), default=Value(False), output_field=BooleanField())


def _number(text: str | None) -> int | None:
    return None if text is None or text in NOTHING else int(text)


def _by_method(rebuilds: Iterable[_Read]) -> dict[str, StepHistory]:
    found: dict[str, list[PastRebuild]] = defaultdict(list)
    for one in rebuilds:
        found[one.method].append(one.past())
    return {method: history_of(past) for method, past in found.items()}
