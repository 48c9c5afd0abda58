"""The list of backup runs."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from dbops.queries import backup_runs as queries
from dbops.web.access import viewer_page


@require_GET
@never_cache
@viewer_page
def backup_runs(request: HttpRequest) -> HttpResponse:
    """Show the runs of the last week, newest first, and what was seen on hosts and needs a person."""
    asked = request.GET
    cluster, flag = asked.get("cluster", ""), asked.get("flag", "")
    context = {
        "page": queries.listed(cluster=cluster, flag=flag, number=asked.get("page", 1)),
        "notes": queries.notes(),
        "clusters": queries.cluster_names(),
        "flags": queries.FLAGS,
        "cluster": cluster,
        "flag": flag,
        "days": queries.DAYS_SHOWN,
    }
    return render(request, "backups/list.html", context)
