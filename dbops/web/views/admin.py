"""Credentials and settings. Neither page shows a secret."""

from django.conf import settings as configured
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods

from dbops.operations.vault import check_vault, secrets_in_vault
from dbops.queries.admin import configuration
from dbops.queries.admin import credentials as queries
from dbops.web.decorators import operator_page, user_of
from dbops.web.live.status_bars import redis_problem
from dbops.web.templatetags.dbops import age
from dbops.web.templatetags.phrases import translated


@require_GET
@never_cache
@operator_page
def credentials(request: HttpRequest) -> HttpResponse:
    """Show which secrets are stored for each host and cluster, and whether they are readable."""
    only_problems = request.GET.get("show") == "problems"
    found = queries.credentials(request.GET.get("page", "1"), only_problems=only_problems)
    context = {
        "page": found.page,
        "problems": sum(found.counts.get(state, 0) for state in queries.PROBLEMS),
        "old": found.counts.get(queries.OLD_KEY, 0),
        "only_problems": only_problems,
        "vault": configured.VAULT,
    }
    return render(request, "admin/credentials.html", context)


@require_http_methods(["GET", "POST"])
@never_cache
@operator_page
def vault(request: HttpRequest) -> HttpResponse:
    """List the secrets that are in Vault; read each on POST, and show only whether that worked."""
    is_checked = request.method == "POST"
    found = check_vault(actor=user_of(request).get_username()) if is_checked else secrets_in_vault()
    context = {
        "vault": configured.VAULT,
        "secrets": found,
        "rows": [(queries.title_of(one.kind, one.column), one) for one in found],
        "is_checked": is_checked,
        "failed": sum(one.error is not None for one in found),
    }
    return render(request, "admin/vault.html", context)


@require_GET
@never_cache
@operator_page
def settings(request: HttpRequest) -> HttpResponse:
    """Show all settings in effect, and versions for bug reports."""
    seen, dropped = configuration.processes()
    about = configuration.versions() | {
        "Redis": translated(problem.cause) if (problem := redis_problem()) else _("takes writes"),
        _("Worker"): _("last reported %(age)s") % {"age": age(seen.get("worker"))},
        _("Beat"): _("last reported %(age)s") % {"age": age(seen.get("beat"))},
        _("Dropped messages"): dropped,
    }
    context = {"settings": configuration.in_effect(), "about": about}
    return render(request, "admin/settings.html", context)
