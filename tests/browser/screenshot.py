"""Makes docs/images/rebuild.png anew: the page of a rebuild that really runs, at 1280 x 800 pixels.

.venv/bin/python -m tests.browser.screenshot [FILE]
"""

import re
import sys
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.stack import OPERATOR, OPERATOR_PASSWORD, ROOT, running_stack

from .chromium import running_chromium, visitor
from .pages import figure, slow_rebuild

NETWORK = "127.0.45"
PERCENT = r"^[3-9]\d\.\d %$"


def take(page: Page, file: Path) -> None:
    """Wait until the numbers of the stream are known and a good part is done, then take the picture."""
    expect(figure(page, "Done")).to_have_text(re.compile(PERCENT), use_inner_text=True, timeout=120_000)
    expect(page.locator("#live-state")).to_have_text("Live")
    page.screenshot(path=file)
    print(f"{file}: {file.stat().st_size} bytes")


def main(file: Path) -> None:
    with running_stack(NETWORK, size="1G") as stack, running_chromium() as browser:
        stack.lab.load_start(tps=20)
        olga = visitor(browser, stack.url)
        olga.log_in(OPERATOR, OPERATOR_PASSWORD)
        with slow_rebuild(stack, olga, share=0.15):
            take(olga.page, file)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images" / "rebuild.png")
