"""Commands for the processes of the races, for rebuilds that share one read of their source."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from dbops.engine.errors import Refused
from dbops.engine.facts.instance import Tool
from dbops.engine.states import Status
from dbops.lifecycle import starts
from dbops.models import Hold, Rebuild
from dbops.operations.rebuilds import cancel_rebuild
from dbops.operations.shared_reads import join_read
from tests.app import factories
from tests.databases.deeds import empty


def forget_reads() -> None:
    """Let rebuilds be deleted: those that others point to are kept by the database."""
    Rebuild.objects.update(leader=None, follows=None)


def line(names: list[str]) -> list[int]:
    """Queue a rebuild of each name, all from one source that can be read once for several. Return their ids."""
    forget_reads()
    empty()
    cluster, user = factories.make_cluster(), factories.make_operator()
    source = factories.make_instance("backup", cluster=cluster, role="backup")
    host = factories.make_host_facts()
    tools = {**host.tools, "python3": Tool("/usr/bin/python3")}
    factories.set_facts(source, factories.make_facts(host=replace(host, tools=tools)))
    found = []
    for name in names:
        target = factories.make_instance(name, cluster=cluster)
        plan = factories.make_plan(target=target, source=source, programs={"source.backup": "/usr/bin/mariadb-backup"})
        made = factories.make_rebuild(
            target=target,
            source=source,
            status=Status.QUEUED,
            requested_by=user,
            plan=plan,
            requested_at=timezone.now(),
        )
        found.append(made.pk)
    return found


def join(rebuild_id: int, leader_id: int) -> str:
    """Return the code of the refusal, ``""`` where it has joined."""
    rows_of = Rebuild.objects.select_related("target", "source")
    user = User.objects.get(username="olga")
    try:
        join_read(actor=user, rebuild=rows_of.get(pk=rebuild_id), leader=rows_of.get(pk=leader_id))
    except Refused as error:
        return error.code
    return ""


def share(verb: str, rebuild_id: int, leader_id: int = 0) -> str:
    """Join, start, or cancel: of one race each process does another."""
    if verb == "join":
        return join(rebuild_id, leader_id)
    rebuild = Rebuild.objects.select_related("source", "target").get(pk=rebuild_id)
    if verb == "start":
        return starts.start(rebuild)
    try:
        cancel_rebuild(actor=User.objects.get(username="olga"), rebuild=rebuild)
    except Refused as error:
        return error.code
    return ""


def look_at_reads() -> dict[str, Any]:
    return {
        "leader": {item.pk: item.leader_id for item in Rebuild.objects.all()},
        "status": {item.pk: item.status for item in Rebuild.objects.all()},
        "holds": [[item.instance.name, item.rebuild_id] for item in Hold.objects.select_related("instance")],
    }


DEEDS: dict[str, Callable[..., Any]] = {
    deed.__name__: deed for deed in (*(forget_reads, line, join, share, look_at_reads),)
}
