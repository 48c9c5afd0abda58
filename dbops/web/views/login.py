"""Log in and out."""

from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView as DjangoLoginView
from django.contrib.auth.views import LogoutView as DjangoLogoutView
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from dbops.audit.log import append, current_origin
from dbops.database import clock
from dbops.models import GivenPassword
from dbops.operations.login_limits import count_login, spelled
from dbops.web.middleware.given_passwords import MUST_CHANGE
from dbops.web.views.health import status

#: Target of a live rebuild page's poll.
LIVE_PART = "live"


class LoginView(DjangoLoginView):
    """The login page. After a redirected fragment request the browser opens this page, and then returns to the page of the fragment."""

    template_name = "registration/login.html"
    redirect_authenticated_user = True

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
            return super().post(request, *args, **kwargs)
        if self.attempt.is_first_blocked:
            append(actor=_known(name), action="login.blocked", subject="dbops", outcome="refused")
        context = self.get_context_data(blocked_until=self.attempt.blocked_until)
        seconds = max(1, round((self.attempt.blocked_until - clock.now()).total_seconds()))
        headers = {"Retry-After": str(seconds)}
        return self.render_to_response(context, status=429, headers=headers)

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        self.attempt.succeeded()
        secret = self.request.META.get("CSRF_COOKIE", "")
        answer: HttpResponse = super().form_valid(form)
        _keep_form_secret(self.request, answer, form.get_user(), secret)
        if GivenPassword.objects.filter(user=form.get_user()).exists():
            self.request.session[MUST_CHANGE] = True
        append(actor=form.get_user().get_username(), action="login", subject="dbops")
        return answer

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        append(actor=_known(form.cleaned_data.get("username", "")), action="login.failed", subject="dbops")
        answer: HttpResponse = super().form_invalid(form)
        return answer


def already_logged_in(request: HttpRequest) -> HttpResponse:
    """Answer an old login form of a browser that is logged in by now: continue to where the form leads, as who is logged in."""
    name = request.user.get_username()
    if spelled(request.POST.get("username", "")) != spelled(name):
        messages.warning(request, f"You are logged in as {name}. Log out first to log in as another user.")
    view = LoginView()
    view.setup(request)
    return HttpResponseRedirect(view.get_success_url())


def _keep_form_secret(request: HttpRequest, answer: HttpResponse, user: User, secret: str) -> None:
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
