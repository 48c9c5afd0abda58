"""docker-compose.yml as compose reads it: variables with their defaults."""

import re
from collections.abc import Mapping
from typing import Any

import yaml

from tests.stack import ROOT

INNERMOST = re.compile(r"\$\{(\w+):-([^${}]*)\}")


def composed(variables: Mapping[str, str]) -> dict[str, Any]:
    """Return docker-compose.yml with these variables of ``.env`` and no others."""
    text, changed = (ROOT / "docker-compose.yml").read_text(), 1
    while changed:
        text, changed = INNERMOST.subn(lambda found: variables.get(found[1]) or found[2], text)
    document: dict[str, Any] = yaml.safe_load(text)
    return document
