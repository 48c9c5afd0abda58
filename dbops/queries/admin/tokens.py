"""Which access tokens exist."""

from dbops.models import AccessToken


def tokens() -> list[AccessToken]:
    """Return every token with its cluster, by name, revoked ones too. One query."""
    return list(AccessToken.objects.select_related("cluster"))
