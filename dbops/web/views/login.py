"""Log in and out."""

from typing import Any
from urllib.parse import urlencode, urlsplit

from allauth.account.utils import perform_login
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView as DjangoLoginView
from django.contrib.auth.views import LogoutView as DjangoLogoutView
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _

from dbops.audit.log import append, current_origin
from dbops.database import clock
from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase
from dbops.operations.login_limits import count_login, spelled
from dbops.web.login.finish import METHOD, PASSWORD, PENDING, check_local, refused_login
from dbops.web.views.health import status

#: Target of a live rebuild page's poll.
LIVE_PART = "live"


class LoginView(DjangoLoginView):
    """The login page. After a redirected fragment request the browser opens this page, and then returns to the page of the fragment."""

    template_name = "registration/login.html"
    redirect_authenticated_user = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context = super().get_context_data(**kwargs)
        context["provider"] = settings.OIDC_NAME if settings.OIDC_ISSUER else ""
        context["recovery_only"] = bool(settings.RECOVERY_ACCOUNT)
        return context

    def get(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        if request.headers.get("HX-Target") == LIVE_PART and request.user.is_anonymous:
            # A watched rebuild stays on the screen, below a bar.
            answer = status(request)
            answer["HX-Retarget"], answer["HX-Reswap"] = "#bars", "innerHTML"
            return answer
        if request.headers.get("HX-Request"):
            # Without this, a page that outlives its session would show the login form inside itself.
            return HttpResponse(
                status=204, headers={"HX-Redirect": f"{reverse('login')}?{urlencode({'next': _page(request)})}"}
            )
        return super().get(request, *args, **kwargs)

    def post(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        """Check a password, unless the account or the address had too many wrong ones."""
        name = spelled(request.POST.get("username", ""))
        self.attempt = count_login(name, current_origin().address)
        if self.attempt.blocked_until is None:
            try:
                check_local(name, phrase("Logging in with a password"))
            except Refused as error:
                return refused_login(request, error, actor=_known(name))
            return super().post(request, *args, **kwargs)
        if self.attempt.is_first_blocked:
            append(actor=_known(name), action="login.blocked", subject="dbops", outcome="refused")
        context = self.get_context_data(blocked_until=self.attempt.blocked_until)
        seconds = max(1, round((self.attempt.blocked_until - clock.now()).total_seconds()))
        headers = {"Retry-After": str(seconds)}
        return self.render_to_response(context, status=429, headers=headers)

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        """Ask for a second factor, if the account has one."""
        self.attempt.succeeded()
        user = form.get_user()
        self.request.session[METHOD] = PASSWORD
        self.request.session[PENDING] = user.get_session_auth_hash()
        answer: HttpResponse = perform_login(self.request, user, redirect_url=self.get_success_url())
        return answer

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        append(actor=_known(form.cleaned_data.get("username", "")), action="login.failed", subject="dbops")
        answer: HttpResponse = super().form_invalid(form)
        return answer


def already_logged_in(request: HttpRequest) -> HttpResponse:
    """Answer an old login form of a browser that is logged in by now: continue to where the form leads, as who is logged in."""
    name = request.user.get_username()
    if spelled(request.POST.get("username", "")) != spelled(name):
        messages.warning(
            request, _("You are logged in as %(name)s. Log out first to log in as another user.") % {"name": name}
        )
    view = LoginView()
    view.setup(request)
    return HttpResponseRedirect(view.get_success_url())


class LogoutView(DjangoLogoutView):
    """Log out on a click."""

    def post(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        if request.user.is_authenticated:
            append(actor=request.user.get_username(), action="logout", subject="dbops")
        answer: HttpResponse = super().post(request, *args, **kwargs)
        return answer


def _known(typed: str) -> str:
    """Return a typed name only if the account exists: otherwise it may be a password in the wrong field."""
    return typed if User.objects.filter(username=typed).exists() else "(no such account)"


def _page(request: HttpRequest) -> str:
    """Return the URL of the page with the fragment, without its host, so that no redirect leaves the site."""
    current = urlsplit(request.headers.get("HX-Current-URL", ""))
    page = f"{current.path}?{current.query}" if current.query else current.path
    is_ours = page.startswith("/") and url_has_allowed_host_and_scheme(page, allowed_hosts=None)
    return page if is_ours else reverse("fleet")
