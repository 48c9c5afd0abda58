"""Exchange a file that a probe may read at any moment."""

import os
from pathlib import Path


def write_whole(file: Path, text: str) -> None:
    """Write a file in one piece, as an editor does: a probe that reads half an option file makes a plan of it."""
    draft = file.with_name(f"{file.name}.draft")
    draft.write_text(text)
    os.chmod(draft, file.stat().st_mode)
    os.replace(draft, file)
