"""Send people without a login to the login page, and then to a page that exists."""

from collections.abc import Callable
from typing import Any

from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponseRedirect

from dbops.web.return_pages import return_page


class LoginMiddleware(LoginRequiredMiddleware):
    """After the login, a form that was sent without one leads to its page: its own address may take no GET."""

    def handle_no_permission(self, request: HttpRequest, view_func: Callable[..., Any]) -> HttpResponseRedirect:
        return redirect_to_login(
            return_page(request), self.get_login_url(view_func), self.get_redirect_field_name(view_func)
        )
