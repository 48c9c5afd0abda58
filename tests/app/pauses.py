"""Act while a command waits."""

import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest


def act_in_pauses(monkeypatch: pytest.MonkeyPatch, module: str, act: Callable[[float], object]) -> None:
    """Let a module call ``act`` where it sleeps. Other modules keep their ``time``: their threads would act, too."""
    monkeypatch.setattr(f"{module}.time", SimpleNamespace(sleep=act, monotonic=time.monotonic))
