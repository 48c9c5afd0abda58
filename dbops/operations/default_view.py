"""Keep the filters of the fleet page that a person begins with. A matter of taste: the audit log says nothing of it."""

from django.contrib.auth.models import User

from dbops.models import StartView


def keep_start_view(user: User, query: str) -> None:
    """Begin with these filters from now on.

    Args:
        query: as it stands in the page's address, at most 1,000 characters; empty to begin with the whole fleet.
    """
    if query:
        StartView.objects.update_or_create(user=user, defaults={"query": query})
    else:
        StartView.objects.filter(user=user).delete()


def start_view_of(user: User) -> str:
    """Return the filters that a person begins with, empty where there are none. One query."""
    return StartView.objects.filter(user=user).values_list("query", flat=True).first() or ""
