"""Plans and rebuilds."""

from collections.abc import Callable
from typing import Annotated, Any

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router

from dbops.engine.states import Status
from dbops.models import Instance, Rebuild
from dbops.operations.approvals import approve_rebuild, decline_rebuild
from dbops.operations.rebuilds import cancel_rebuild, plan_rebuild, request_rebuild
from dbops.operations.start_options import offered_start_options
from dbops.queries.rebuilds import log as logs
from dbops.queries.rebuilds import pages as queries
from dbops.web.api.access import Caller, called_by
from dbops.web.api.clusters import instance_named
from dbops.web.api.once import Key, once, request_key_of
from dbops.web.api.problems import not_found
from dbops.web.api.schemas import rebuilds as schemas
from dbops.web.api.schemas.base import LARGEST, NAME, InPath, Limit, Number, NumberCursor, Page, newest_first

router = Router(tags=["rebuilds"])
Named = Annotated[str | None, Query(pattern=NAME, max_length=63)]


@router.post(
    "/instances/{name}/plan",
    response=schemas.PlanOut,
    summary="Plan a rebuild",
    operation_id="plan_rebuild",
)
def plan(request: HttpRequest, name: InPath, given: schemas.PlanRequest) -> Any:
    """What a rebuild of the instance would do now. Writes nothing and contacts no host, so a token with the scope `read` may."""
    target, source = _places(called_by(request), name, given)
    found = plan_rebuild(target=target, source=source, **_choices(given))
    chosen = instance_named(called_by(request), found.source.name)
    options = offered_start_options(target, chosen, method=given.method, key=given.start)
    return schemas.plan(found, options)


@router.get("/rebuilds", response=Page[schemas.RebuildShort], summary="List rebuilds")
def list_rebuilds(
    request: HttpRequest,
    status: Annotated[Status | None, Query()] = None,
    cluster: Named = None,
    target: Named = None,
    cursor: NumberCursor = None,
    limit: Limit = 50,
) -> Any:
    """Rebuilds, newest first."""
    rows = called_by(request).limited(
        queries.rows(status=status or "", cluster=cluster or "", target=target or ""), "target__cluster"
    )
    return newest_first(rows, cursor, limit, schemas.rebuild_short)


@router.post(
    "/rebuilds", response={201: schemas.RebuildOut}, summary="Request a rebuild", operation_id="request_rebuild"
)
def request(request: HttpRequest, key: Key, given: schemas.RebuildRequest) -> HttpResponse:
    """Carry out a plan: the target's data is replaced. The rebuild is queued, and starts when it can."""

    def act(caller: Caller) -> schemas.RebuildOut:
        target, source = _places(caller, given.target, given)
        if source is None:
            source = instance_named(caller, plan_rebuild(target=target, **_choices(given)).source.name)
        rebuild = request_rebuild(
            actor=caller.user,
            target=target,
            source=source,
            typed_name=given.confirm,
            reason=given.reason,
            fingerprint=given.fingerprint,
            request_key=request_key_of(caller, key),
            start=given.start,
            ticket=given.ticket,
            expires_hours=given.expires_hours,
            rate=given.rate,
            **_choices(given),
        )
        return full(rebuild.pk)

    return once(request, key, act, status=201)


@router.get(
    "/rebuilds/{rebuild_id}", response=schemas.RebuildOut, summary="Read a rebuild", operation_id="read_rebuild"
)
def read(request: HttpRequest, rebuild_id: Number) -> Any:
    """A rebuild with its steps and their progress."""
    return full(find(called_by(request), rebuild_id).pk)


@router.get(
    "/rebuilds/{rebuild_id}/log",
    response=Page[schemas.Line],
    summary="Read a rebuild's log",
    operation_id="read_rebuild_log",
)
def read_log(
    request: HttpRequest,
    rebuild_id: Number,
    cursor: Annotated[int | None, Query(ge=0, le=LARGEST, description="Only lines after this one.")] = None,
    limit: Limit = 200,
) -> Any:
    """Lines of the log, oldest first. `next` is the last line of a page that is full."""
    found = logs.after(find(called_by(request), rebuild_id).pk, cursor or 0, shown=limit)
    return {
        "items": [schemas.line(event) for event in found.events],
        "next": str(found.last_event) if found.has_newer else None,
    }


@router.post(
    "/rebuilds/{rebuild_id}/cancel",
    response=schemas.RebuildOut,
    summary="Cancel a rebuild",
    operation_id="cancel_rebuild",
)
def cancel(request: HttpRequest, rebuild_id: Number, key: Key) -> HttpResponse:
    """Request the end of a rebuild: at once while it is queued, within seconds while it runs."""
    return once(request, key, _on(rebuild_id, lambda caller, row: cancel_rebuild(actor=caller.user, rebuild=row)))


@router.post(
    "/rebuilds/{rebuild_id}/approve",
    response=schemas.RebuildOut,
    summary="Approve a rebuild",
    operation_id="approve_rebuild",
)
def approve(request: HttpRequest, rebuild_id: Number, key: Key, given: schemas.Decision) -> HttpResponse:
    """Approve a rebuild that another account requested."""

    def act(caller: Caller, row: Rebuild) -> None:
        approve_rebuild(actor=caller.user, rebuild=row, reason=given.reason)

    return once(request, key, _on(rebuild_id, act))


@router.post(
    "/rebuilds/{rebuild_id}/decline",
    response=schemas.RebuildOut,
    summary="Decline a rebuild",
    operation_id="decline_rebuild",
)
def decline(request: HttpRequest, rebuild_id: Number, key: Key, given: schemas.Decision) -> HttpResponse:
    """Decline a rebuild that another account requested. It ends before its start."""

    def act(caller: Caller, row: Rebuild) -> None:
        decline_rebuild(actor=caller.user, rebuild=row, reason=given.reason)

    return once(request, key, _on(rebuild_id, act))


def find(caller: Caller, rebuild_id: int) -> Rebuild:
    """Return a rebuild that the token opens."""
    return caller.one(Rebuild.objects.filter(pk=rebuild_id), "target__cluster")


def full(rebuild_id: int) -> schemas.RebuildOut:
    """Return a rebuild as it is now."""
    found = queries.find(rebuild_id)
    if found is None:
        raise not_found()
    return schemas.rebuild_full(queries.page(found))


def _on(rebuild_id: int, act: Callable[[Caller, Rebuild], None]) -> Callable[[Caller], schemas.RebuildOut]:
    """Return what acts on a rebuild that the token opens, and shows it afterwards."""

    def done(caller: Caller) -> schemas.RebuildOut:
        find(caller, rebuild_id)
        row = queries.find(rebuild_id)
        if row is None:
            raise not_found()
        act(caller, row)
        return full(rebuild_id)

    return done


def _places(caller: Caller, target: str, given: schemas.PlanRequest) -> tuple[Instance, Instance | None]:
    """Return target and source: of the same cluster, as on the page."""
    found = instance_named(caller, target)
    if given.source is None:
        return found, None
    source = instance_named(caller, given.source)
    if source.cluster_id != found.cluster_id or source.pk == found.pk:
        raise not_found(f"cluster {found.cluster.name} has no other instance {given.source}")
    return found, source


def _choices(given: schemas.PlanRequest) -> dict[str, Any]:
    return {
        "method": given.method.value,
        "keep_old_data": given.keep_old_data,
        "full_certificate": given.full_certificate,
    }
