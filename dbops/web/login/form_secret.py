"""Keep forms in other tabs valid when their user logs in again."""

from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse


def keep_form_secret(request: HttpRequest, answer: HttpResponse, user: User, secret: str) -> None:
    """Keep the browser's CSRF secret if it comes from an earlier login of the same user: open forms in other tabs stay valid.

    A cookie that is signed with the secret proves where it comes from. Any other secret is replaced, as Django does at each login,
    so that no other site can know it; a new password also replaces it.

    Args:
        secret: the secret before the login.
    """
    name, password = f"{settings.CSRF_COOKIE_NAME}_owner", user.get_session_auth_hash()
    if secret and request.get_signed_cookie(name, default="", salt=secret + password) == str(user.pk):
        request.META["CSRF_COOKIE"] = secret
    answer.set_signed_cookie(
        name,
        str(user.pk),
        salt=request.META["CSRF_COOKIE"] + password,
        max_age=settings.CSRF_COOKIE_AGE,
        path=settings.CSRF_COOKIE_PATH,
        secure=settings.CSRF_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )
