"""The inventory: list, add, change and remove objects; fleet files and host keys."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_http_methods

from dbops.database import clock
from dbops.engine.errors import DbopsError, Refused
from dbops.fleetfile import sshkeys, stored
from dbops.models import Cluster, ConnectionTest, Host, Instance
from dbops.operations import fleet
from dbops.operations.host_certificates import read_host_certificate
from dbops.queries.admin import connection_tests as tests
from dbops.queries.admin.accounts import roles_on_cluster
from dbops.queries.rebuilds.lineage import lineage_of
from dbops.security.ssh_certificates import HostCertificate
from dbops.web.decorators import operator_page, settings_page, user_of, viewer_page
from dbops.web.exports.record import exported
from dbops.web.forms.inventory import ClusterForm, HostForm, InstanceForm, InventoryForm
from dbops.web.forms.inventory_import import ImportForm
from dbops.web.refusal_texts import refusal_text

Row = Host | Cluster | Instance


@dataclass(frozen=True, slots=True)
class InventoryKind:
    """One of the three kinds of objects: its word in URLs and pages, its form, and the operation that saves it."""

    word: str
    model: type[Host] | type[Cluster] | type[Instance]
    form: type[InventoryForm]
    save: Callable[[User, Any, dict[str, Any]], Row]


KINDS = {
    kind.word: kind
    for kind in (
        InventoryKind(
            "host", Host, HostForm, lambda who, row, values: fleet.save_host(actor=who, host=row, values=values)
        ),
        InventoryKind(
            "cluster",
            Cluster,
            ClusterForm,
            lambda who, row, values: fleet.save_cluster(actor=who, cluster=row, values=values),
        ),
        InventoryKind(
            "instance",
            Instance,
            InstanceForm,
            lambda who, row, values: fleet.save_instance(actor=who, instance=row, values=values),
        ),
    )
}


@require_GET
@never_cache
@viewer_page
def inventory(request: HttpRequest) -> HttpResponse:
    """List hosts, clusters and instances."""
    rows = stored.load()
    context = {
        "hosts": [(host, sshkeys.fingerprint_or_empty(host.host_key)) for host in rows.hosts.values()],
        "clusters": list(rows.clusters.values()),
        "instances": list(rows.instances.values()),
    }
    return render(request, "inventory/list.html", context)


@sensitive_post_parameters()
@require_http_methods(["GET", "POST"])
@never_cache
@operator_page
def add(request: HttpRequest, kind: str) -> HttpResponse:
    """Show an empty form, and add on POST."""
    return _edit(request, _kind(kind), None)


@sensitive_post_parameters()
@require_http_methods(["GET", "POST"])
@never_cache
@settings_page
def edit(request: HttpRequest, kind: str, name: str) -> HttpResponse:
    """Show a stored object without its secrets; change it on POST."""
    wanted = _kind(kind)
    return _edit(request, wanted, _row(wanted, name))


@require_http_methods(["GET", "POST"])
@never_cache
@operator_page
def remove(request: HttpRequest, kind: str, name: str) -> HttpResponse:
    """Ask for confirmation; remove the object on POST."""
    wanted = _kind(kind)
    row = _row(wanted, name)
    refused: Refused | None = None
    if request.method == "POST":
        try:
            fleet.delete(actor=user_of(request), row=row)
        except Refused as error:
            refused = error
        else:
            messages.success(
                request,
                _("%(kind)s %(name)s removed from the inventory.")
                % {"kind": _(wanted.word.capitalize()), "name": name},
            )
            return redirect("inventory")
    context = {"kind": wanted.word, "row": row, "refused": refused}
    return render(request, "inventory/remove.html", context, status=409 if refused else 200)


@sensitive_post_parameters()
@require_http_methods(["GET", "POST"])
@never_cache
@operator_page
def import_file(request: HttpRequest) -> HttpResponse:
    """Check or import a fleet file; show each error with its line, or the outcome of each object."""
    if request.method != "POST":
        return render(request, "inventory/import.html", {"form": ImportForm()})
    form = ImportForm(request.POST, request.FILES)
    if not form.is_valid():
        return render(request, "inventory/import.html", {"form": form}, status=422)
    dry_run = request.POST.get("action") != "import"
    try:
        report = fleet.import_fleet(
            actor=user_of(request).get_username(),
            text=form.cleaned_data["text"],
            base_dir=None,
            dry_run=dry_run,
            user=user_of(request),
        )
    except fleet.FleetFileErrors as found:
        context = {"form": ImportForm(), "errors": found.errors}
        return render(request, "inventory/import.html", context, status=422)
    return render(request, "inventory/import.html", {"form": ImportForm(), "report": report, "dry_run": dry_run})


@require_GET
@never_cache
@exported("fleet")
@operator_page
def export_file(request: HttpRequest) -> HttpResponse:
    """Send the fleet as a file, without secrets."""
    headers = {"Content-Disposition": 'attachment; filename="fleet.yaml"', "X-Content-Type-Options": "nosniff"}
    return HttpResponse(fleet.export_fleet(), content_type="application/yaml; charset=utf-8", headers=headers)


@require_http_methods(["GET", "POST"])
@never_cache
@operator_page
def host_key(request: HttpRequest, name: str) -> HttpResponse:
    """Show the pinned key; on POST read or accept the key that the host presents."""
    host = get_object_or_404(Host, name=name)
    found: sshkeys.HostKey | None = None
    certificate: HostCertificate | None = None
    problem: DbopsError | None = None
    action = request.POST.get("action", "")
    try:
        if action == "read":
            certificate = read_host_certificate(host)
            found = certificate.key if certificate else fleet.read_host_key(host)
        elif action == "accept":
            fleet.accept_host_key(
                actor=user_of(request),
                host=host,
                host_key=request.POST.get("host_key", ""),
                replace=request.POST.get("replace") == "yes",
                shown=request.POST.get("shown", ""),
            )
            messages.success(request, _("Host key of %(host)s pinned.") % {"host": host.name})
            return redirect("host-key", name=host.name)
    except DbopsError as error:
        problem = error
    context = {
        "host": host,
        "pinned": sshkeys.fingerprint_or_empty(host.host_key),
        "found": found,
        "certificate": certificate,
        "is_same": found is not None and found.line == host.host_key,
        "problem": problem,
    }
    return render(request, "inventory/host_key.html", context, status=409 if problem else 200)


def _edit(request: HttpRequest, kind: InventoryKind, row: Row | None) -> HttpResponse:
    name = row.name if row else ""
    form = kind.form(request.POST if request.method == "POST" else None, instance=row)
    if isinstance(form, ClusterForm) and row is not None and not request.may_administer:  # type: ignore[attr-defined]
        form.freeze_rules()
    if not request.may_operate_fleet:  # type: ignore[attr-defined]
        form.vault.freeze()
    if request.method == "POST" and form.is_valid():
        try:
            saved = kind.save(user_of(request), form.before, form.values())
        except Refused as error:
            form.add_error(None, refusal_text(error, has_state=True))
        else:
            messages.success(
                request, _("%(kind)s %(name)s saved.") % {"kind": _(kind.word.capitalize()), "name": saved.name}
            )
            if isinstance(saved, Host) and not saved.host_key:
                return redirect("host-key", name=saved.name)
            return redirect("inventory")
    known = lineage_of(form.before, clock.now()) if isinstance(form.before, Instance) else None
    context = {"form": form, "kind": kind.word, "name": name, "tests": _tests(form.before), "lineage": known}
    if isinstance(form.before, Cluster):
        context["cluster_roles"] = roles_on_cluster(form.before)
    return render(request, "inventory/edit.html", context, status=422 if form.is_bound else 200)


def _tests(row: Row | None) -> tests.HostTests | ConnectionTest | None:
    """Return the latest tests of the object."""
    if isinstance(row, Host):
        return tests.of_host(row)
    return tests.of_instance(row) if isinstance(row, Instance) else None


def _kind(word: str) -> InventoryKind:
    if word not in KINDS:
        raise Http404
    return KINDS[word]


def _row(kind: InventoryKind, name: str) -> Row:
    return cast(Row, get_object_or_404(kind.model, name=name))
