"""Which sessions may still view: for pages that stay open for longer than one request."""

from collections.abc import Collection
from typing import Any

from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from dbops.security.permissions import people_who_may_view


def sessions_that_may_view(keys: Collection[str]) -> set[str]:
    """Return those of the session keys that are still logged in, as a user who may view. Two queries for all of them.

    A session ends with a logout, its expiry, its removal, a new password of its user, or the user's account.
    """
    users = {str(user.pk): user for user in people_who_may_view()}
    found = Session.objects.filter(session_key__in=keys, expire_date__gt=timezone.now())
    return {session.session_key for session in found if _is_valid(session.get_decoded(), users)}


def _is_valid(content: dict[str, Any], users: dict[str, User]) -> bool:
    user = users.get(content.get(SESSION_KEY, ""))
    # a new password changes the hash
    return user is not None and constant_time_compare(content.get(HASH_SESSION_KEY, ""), user.get_session_auth_hash())
