"""Logging in."""

from urllib.parse import urlencode, urlsplit

from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView as DjangoLoginView
from django.contrib.auth.views import LogoutView as DjangoLogoutView
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from dbops.audit.log import append


class LoginView(DjangoLoginView):
    """The login page. A fragment's request that was sent here sends the browser here, and back to the page it came from."""

    template_name = "registration/login.html"
    redirect_authenticated_user = True

    def get(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        if request.headers.get("HX-Request"):
            # Without this, a page left open over the end of its session would show the login form in its middle.
            return HttpResponse(
                status=204, headers={"HX-Redirect": f"{reverse('login')}?{urlencode({'next': _page(request)})}"}
            )
        return super().get(request, *args, **kwargs)

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        answer: HttpResponse = super().form_valid(form)
        append(actor=form.get_user().get_username(), action="login", subject="dbops")
        return answer

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        """Note the name only where there is such an account: else it may be a password that was typed into the wrong field."""
        typed = form.cleaned_data.get("username", "")
        name = typed if User.objects.filter(username=typed).exists() else "(no such account)"
        append(actor=name, action="login.failed", subject="dbops")
        answer: HttpResponse = super().form_invalid(form)
        return answer


class LogoutView(DjangoLogoutView):
    """Logging out, by a click."""

    def post(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        if request.user.is_authenticated:
            append(actor=request.user.get_username(), action="logout", subject="dbops")
        answer: HttpResponse = super().post(request, *args, **kwargs)
        return answer


def _page(request: HttpRequest) -> str:
    """Return the address of the page that holds the fragment, without its host: a browser is sent nowhere else."""
    current = urlsplit(request.headers.get("HX-Current-URL", ""))
    page = f"{current.path}?{current.query}" if current.query else current.path
    is_ours = page.startswith("/") and url_has_allowed_host_and_scheme(page, allowed_hosts=None)
    return page if is_ours else reverse("fleet")
