"""Tags about approvals and change tickets (a builtin: no ``{% load %}``)."""

from typing import Any

from django import template
from django.contrib.auth.models import User
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import ngettext

from dbops.engine.access.tickets import ticket_url
from dbops.models import Rebuild
from dbops.operations.approvals import may_decide, who_may_approve

register = template.Library()


@register.simple_tag
def approval_rule(count: int, only_approvers: bool) -> str:
    """Return who must approve, as a noun."""
    if only_approvers:
        said = ngettext("an approver", "%(number)s approvers", count)
    else:
        said = ngettext("another operator or approver", "%(number)s other operators or approvers", count)
    return said % {"number": count}


@register.simple_tag
def ticket(rebuild: Rebuild) -> SafeString | str:
    """Return a rebuild's change ticket, as a link if its cluster has an address for tickets."""
    address = ticket_url(rebuild.ticket, rebuild.target.cluster.ticket_url)
    if not address:
        return rebuild.ticket
    return format_html('<a href="{}" rel="noreferrer noopener" target="_blank">{}</a>', address, rebuild.ticket)


@register.simple_tag(takes_context=True)
def can_decide(context: dict[str, Any], rebuild: Rebuild) -> bool:
    """Whether the viewer of the page can approve or decline a rebuild that waits for approval. Two queries."""
    user = context["request"].user
    return isinstance(user, User) and may_decide(user, rebuild)


@register.simple_tag
def possible_approvers(rebuild: Rebuild) -> list[str]:
    """Return the accounts that can still approve a rebuild. Four queries."""
    return who_may_approve(rebuild)
