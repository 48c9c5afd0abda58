"""Read settings from environment variables. A wrong value ends the process with one line."""

import os
import re
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def clearly(read: Callable[P, T]) -> Callable[P, T]:
    """Return a function that reads a setting, and ends the process with one line if it is wrong, whatever program reads it."""

    @wraps(read)
    def reading(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return read(*args, **kwargs)
        except (OSError, ValueError) as error:
            raise SystemExit(f"dbops: {error}") from None

    return reading


@clearly
def env_bool(name: str, default: bool) -> bool:
    """Return a 0/1 variable as a boolean. Other values are errors, so that a typo never enables anything."""
    value = os.environ.get(name, "1" if default else "0")
    if value not in ("0", "1"):
        raise ValueError(f"{name} must be 0 or 1, not {value!r}")
    return value == "1"


@clearly
def env_int(name: str, default: int) -> int:
    value = os.environ.get(name, str(default))
    if not re.fullmatch(r"-?[0-9]+", value):
        raise ValueError(f"{name} must be a whole number, not {value!r}")
    return int(value)


@clearly
def env_choice(name: str, *choices: str) -> str:
    """Return one of some words; the first is the default."""
    if (value := os.environ.get(name, choices[0])) not in choices:
        raise ValueError(f"{name} must be {' or '.join(choices)}, not {value!r}")
    return value


def env_list(name: str, default: str = "") -> list[str]:
    return [item.strip() for item in os.environ.get(name, default).split(",") if item.strip()]


@clearly
def env_prefix(name: str) -> str:
    """Return a URL path without its last slash; "" for the root of the host."""
    value = os.environ.get(name, "").rstrip("/")
    if not re.fullmatch(r"(/[A-Za-z0-9._~-]+)*", value):
        raise ValueError(f"{name} must be a path such as /dbops, not {value!r}")
    return value


@clearly
def env_base_url(name: str) -> str:
    """Return the address of dbops for people, without a path; "" if it is not set."""
    value = os.environ.get(name, "").rstrip("/")
    if value and not re.fullmatch(r"https?://[A-Za-z0-9.\[\]:-]+", value):
        raise ValueError(f"{name} must be an address such as https://dbops.example.org without a path, not {value!r}")
    return value


@clearly
def env_url(name: str) -> str:
    """Return an http or https URL without a login; "" if it is not set."""
    value = os.environ.get(name, "")
    if value and not re.fullmatch(r"https?://[A-Za-z0-9.\[\]:-]+(/[^\s@?#]*)?", value):
        raise ValueError(f"{name} must be a URL such as https://collector.example.org:4318/v1/traces, not {value!r}")
    return value
