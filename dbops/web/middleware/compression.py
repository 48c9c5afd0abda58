"""Compress pages when they are sent, and static files when they are collected."""

from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from whitenoise.storage import CompressedManifestStaticFilesStorage


class PagesGZipMiddleware(GZipMiddleware):
    """Compress whole pages. Streams stay uncompressed: a compressor each would cost 256 kB per viewer, for a thousand viewers."""

    def process_response(self, request: HttpRequest, response: Any) -> HttpResponseBase:
        if response.streaming:
            return response
        return super().process_response(request, response)


class CollectedStorage(CompressedManifestStaticFilesStorage):
    """Name static files by their content once ``script/run migrate`` has collected them, and by their plain names before."""

    def stored_name(self, name: str) -> str:
        return super().stored_name(name) if self.hashed_files else name
