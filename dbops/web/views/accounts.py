"""Logging in."""

from django.contrib.auth.views import LoginView as DjangoLoginView
from django.http import HttpRequest, HttpResponse


class LoginView(DjangoLoginView):
    """The login page. A fragment's request that was sent here asks the browser to load the whole page anew."""

    template_name = "registration/login.html"
    redirect_authenticated_user = True

    def get(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        if request.headers.get("HX-Request"):
            # Without this, a page left open over the end of its session would show the login form in its middle.
            return HttpResponse(status=204, headers={"HX-Refresh": "true"})
        return super().get(request, *args, **kwargs)
