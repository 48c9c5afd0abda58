"""The gate and the sudoers file of a host, to install them there. They have no secrets."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from dbops.engine.errors import Refused
from dbops.loaders.gates import installable_gate_of
from dbops.models import Host
from dbops.web.decorators import operator_page


@require_GET
@never_cache
@operator_page
def host_sudo(request: HttpRequest, name: str) -> HttpResponse:
    """Show what ``manage.py host gate`` and ``manage.py host sudoers`` print, or why there is nothing to install."""
    host = get_object_or_404(Host.objects.defer("ssh_private_key"), name=name)
    try:
        gate = installable_gate_of(host)
    except Refused as error:
        return render(request, "inventory/host_sudo.html", {"host": host, "problem": error})
    # sudo reads its file at once, so the gate comes first
    sudoers_path = f"/etc/sudoers.d/{gate.name}"
    texts = (
        (_("Gate"), "gate", gate.path, "0755", gate.program()),
        (_("Sudoers file"), "sudoers", sudoers_path, "0440", gate.sudoers(host.ssh_user)),
    )
    files = [
        {"title": title, "command": f"manage.py host {verb} {host.name}", "path": path, "mode": mode, "text": text}
        for title, verb, path, mode, text in texts
    ]
    return render(request, "inventory/host_sudo.html", {"host": host, "files": files})
