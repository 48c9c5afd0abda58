"""The page of all error codes."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from dbops.engine.catalogue import SECTIONS
from dbops.web.decorators import viewer_page


@viewer_page
def error_codes(request: HttpRequest) -> HttpResponse:
    """Show the error catalogue; each entry has its code as anchor."""
    return render(request, "error_codes.html", {"sections": SECTIONS})
