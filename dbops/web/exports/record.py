"""Record exports in the audit log."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from django.http import HttpRequest, HttpResponseBase

from dbops.operations.audit import record_export
from dbops.web.decorators import user_of

P = ParamSpec("P")
R = TypeVar("R", bound=HttpResponseBase)


def exported(
    subject: str,
) -> Callable[[Callable[Concatenate[HttpRequest, P], R]], Callable[Concatenate[HttpRequest, P], R]]:
    """Record an export with its address and filter when a view returns a file; pages are not recorded."""

    def decorate(view: Callable[Concatenate[HttpRequest, P], R]) -> Callable[Concatenate[HttpRequest, P], R]:
        @wraps(view)
        def inner(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> R:
            answer = view(request, *args, **kwargs)
            if "Content-Disposition" in answer.headers and answer.status_code == 200:
                asked = request.GET.dict()
                record_export(user_of(request).get_username(), subject, path=request.path, filter=asked)
            return answer

        return inner

    return decorate
