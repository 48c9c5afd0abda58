"""Who may use a host: those who may operate all clusters that have an instance on it."""

from collections.abc import Iterable

from django.contrib.auth.models import User

from dbops.engine.access.roles import Action, may
from dbops.models import Host, Instance
from dbops.security.permissions import require, roles_of


def require_on_hosts(actor: User, operation: str, hosts: Iterable[Host]) -> None:
    """Refuse a use of hosts (``access.denied``). A host without an instance belongs to the fleet.

    At most one query more than ``require``: with the role everywhere, the hosts do not matter.
    """
    roles = roles_of(actor)
    if may(roles, Action.OPERATE):
        return require(actor, Action.OPERATE, operation)  # refuses in the sample
    wanted = {host.pk for host in hosts}
    rows = Instance.objects.filter(host__in=wanted).order_by().values_list("host", "cluster").distinct()
    found = list(rows)
    if not wanted:
        return None
    is_ours = {host for host, _ in found} == wanted and all(may(roles, Action.OPERATE, cluster) for _, cluster in found)
    return require(actor, Action.OPERATE, operation, found[0][1] if is_ours and found else None)
