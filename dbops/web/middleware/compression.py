"""How much a page weighs on the line: pages are compressed when they are sent, what they load when it is collected."""

from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from whitenoise.storage import CompressedManifestStaticFilesStorage


class PagesGZipMiddleware(GZipMiddleware):
    """Compress whole pages. A stream is left as it is: a compressor each would cost a thousand viewers 256 kB each."""

    def process_response(self, request: HttpRequest, response: Any) -> HttpResponseBase:
        if response.streaming:
            return response
        return super().process_response(request, response)


class CollectedStorage(CompressedManifestStaticFilesStorage):
    """Name static files by their content once ``script/run migrate`` has collected them, and by their plain names before."""

    def stored_name(self, name: str) -> str:
        return super().stored_name(name) if self.hashed_files else name
