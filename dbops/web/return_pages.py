"""The page to which a link or a form of the current answer returns: one that answers GET."""

from urllib.parse import urlsplit

from django.http import HttpRequest
from django.urls import reverse

MOST_CHARACTERS = 2000


def return_page(request: HttpRequest) -> str:
    """Return the path and query of the page that the person is on.

    The answer to a form has the form's address, which may take POST alone: the page with the form is the one to return to. Browsers
    name it to their own site; without its name, it is the fleet.
    """
    if request.method in {"GET", "HEAD"}:
        return request.get_full_path()
    try:
        sender = urlsplit(request.headers.get("Referer", "")[:MOST_CHARACTERS])
    except ValueError:
        return reverse("fleet")
    is_ours = sender.netloc == request.get_host() and sender.path.startswith("/") and not sender.path.startswith("//")
    return (f"{sender.path}?{sender.query}" if sender.query else sender.path) if is_ours else reverse("fleet")
