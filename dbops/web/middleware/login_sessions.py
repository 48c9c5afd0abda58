"""Note when each session was last used, at most once a minute."""

import time

from django.http import HttpRequest, HttpResponse
from django.utils.deprecation import MiddlewareMixin

from dbops.operations.login_sessions import note_use
from dbops.web.login.finish import SESSION_ROW

SECONDS = 60.0
MOST_REMEMBERED = 10_000
#: By the row's key: the session's key and when it was noted, by this process's monotonic clock.
_noted: dict[int, tuple[str, float]] = {}


class LoginSessionMiddleware(MiddlewareMixin):
    """Work only where the page has read the session anyway. Sessions without a row are not noted."""

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        session = getattr(request, "session", None)
        if session is None or not session.accessed or (row_id := session.get(SESSION_ROW)) is None:
            return response
        key, now = session.session_key or "", time.monotonic()
        noted_key, noted_at = _noted.get(row_id, ("", 0.0))
        if key and (key != noted_key or now - noted_at > SECONDS):
            if len(_noted) >= MOST_REMEMBERED:
                _noted.clear()
            _noted[row_id] = (key, now)
            note_use(row_id, key)
        return response
