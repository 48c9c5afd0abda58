"""script/screenshots: the pictures of README and docs. What lives on history is taken of the sample fleet and marked as such; what runs is
taken of two real clusters while a replica is rebuilt for real.

script/screenshots                          docs/images/*.png again, 1280 x 800 pixels, light
script/screenshots --of sample              those of the sample alone: a minute, no lab
script/screenshots --every-size var/pages   and each page whole in every width, light and dark, into a folder of its own: for looking at
"""

import argparse
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from playwright.sync_api import Browser, Page, expect

from lab.lab import Lab
from lab.pytest_plugin import start_lab
from tests.networks import free_network
from tests.run_folder import new_folder
from tests.slow_process import braked
from tests.stack import OPERATOR, OPERATOR_PASSWORD, ROOT, VIEWER, VIEWER_PASSWORD, Stack, running_stack, wait_for

from .chromium import Visitor, running_chromium, visitor
from .pages import TARGET, confirm, figure
from .sample import running_sample

IMAGES = ROOT / "docs" / "images"
SIZE = {"width": 1280, "height": 800}
WIDTHS = (360, 768, 1280, 1920, 2560)
SCHEMES = ("light", "dark")
CLUSTER, OTHER_CLUSTER = "shop", "billing"
#: So much of the time the stream may work, so that there is something to see of it.
SHARE = 0.12
#: Time until the nightly backup is due: a window appears in the drawings.
DUE_IN = timedelta(hours=3)
ENOUGH_DONE = r"^[3-9]\d\.\d %$"
#: What README and docs show; the other pages are taken to be looked at alone.
OF_LAB = ("plan", "rebuild", "topology")
OF_SAMPLE = ("fleet", "calendar", "availability", "audit", "backups", "lineage")


@dataclass
class Camera:
    """Takes each picture at the size of the docs and, where a folder is given, at every size."""

    browser: Browser
    person: Visitor
    images: Path
    every_size: Path | None

    def take(self, name: str, address: str = "", ready: Callable[[Page], None] | None = None) -> None:
        """Picture a page; ``address`` is empty for the one that is open. ``ready`` waits until what it shows is there."""
        page = self.person.open(address) if address else self.person.page
        if ready:
            ready(page)
        if name in OF_LAB + OF_SAMPLE:
            page.evaluate("document.activeElement && document.activeElement.blur()")
            file = self.images / f"{name}.png"
            page.screenshot(path=file, animations="disabled")
            print(f"{file}: {file.stat().st_size} bytes", flush=True)
        if self.every_size:
            self._every_size(name, page.url.removeprefix(self.person.url), self.every_size)

    def _every_size(self, name: str, address: str, folder: Path) -> None:
        for scheme in SCHEMES:
            state: Any = self.person.context.storage_state()
            other = visitor(self.browser, self.person.url, color_scheme=scheme, storage_state=state)
            other.open(address)
            for width in WIDTHS:
                other.page.set_viewport_size({"width": width, "height": 800})
                other.page.wait_for_timeout(150)
                other.page.screenshot(
                    path=folder / f"{name}-{width}-{scheme}.png", full_page=True, animations="disabled"
                )
                needed = other.page.evaluate("document.documentElement.scrollWidth")
                if needed > width:
                    print(f"TOO WIDE: {address} needs {needed} pixels of {width}", flush=True)
            for fault in other.faults:
                print(f"FAULT: {address}: {fault}", flush=True)
            other.context.close()


@contextmanager
def two_clusters(size: str) -> Iterator[Stack]:
    """Run a dashboard over the cluster whose replica is rebuilt and a small one beside it."""
    folder = new_folder("pictures")
    try:
        with (
            running_stack(free_network(), size=size, name=CLUSTER, replicas=2) as stack,
            start_lab(folder / "lab", free_network(), "64M", name=OTHER_CLUSTER, prefix=f"{OTHER_CLUSTER}-") as other,
        ):
            stack.lab.load_start(tps=20)
            due = datetime.now(UTC) + DUE_IN
            nightly = {"name": "shop-nightly", "method": "physical", "cron": f"{due.minute} {due.hour} * * *"}
            dumps = {"name": "shop-dumps", "method": "dump", "cron": "30 23 * * 0"}
            for lab, rows in ((stack.lab, [nightly, dumps]), (other, [{**dumps, "name": "billing-dumps"}])):
                stack.manage("fleet", "import", str(with_schedules(lab, rows)))
            for name in ("billing-dumps", "shop-nightly", "shop-nightly"):
                stack.manage("backup", name, "--watch")
            yield stack
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def with_schedules(lab: Lab, rows: list[dict[str, str]]) -> Path:
    """Give a cluster's backup instance schedules that dbops runs; return its fleet file."""
    fleet = yaml.safe_load(lab.fleet_yaml.read_text())
    [source] = [item for cluster in fleet["clusters"] for item in cluster["instances"] if item["role"] == "backup"]
    folder = str(lab.host(source["name"]).folder / "backups")
    source["backups"] = [{**row, "run_by": "dbops", "directory": folder} for row in rows]
    file = lab.fleet_yaml.with_name("fleet-with-backups.yaml")
    file.write_text(yaml.safe_dump(fleet))
    return file


def take_lab(stack: Stack, camera: Camera) -> None:
    camera.take("schedules", "/schedules/")
    camera.take("topology", f"/clusters/{CLUSTER}/topology/")
    stack.lab.break_host(TARGET, "wipe")
    stack.wait_for_possible_plan(TARGET)
    camera.take("fleet-in-trouble", "/")
    camera.take("cluster", f"/clusters/{CLUSTER}/")
    camera.take("plan", f"/instances/{TARGET}/rebuild/")
    with braked(stack.lab.host(TARGET), SHARE):
        camera.person.open(f"/instances/{TARGET}/rebuild/")
        confirm(camera.person.page)
        camera.person.page.wait_for_url("**/rebuilds/*/")
        camera.take("rebuild", ready=is_well_under_way)
    wait_for(
        "the end of the rebuild", lambda: stack.rows("SELECT 1 FROM dbops_rebuild WHERE status = 'succeeded'"), 300
    )
    camera.take("rebuild-done", camera.person.page.url.removeprefix(stack.url))
    camera.take("rebuilds", "/rebuilds/")


def take_sample(camera: Camera) -> None:
    """Its cluster ``billing`` has the dump of sixteen hours, ``shop`` the rebuilds that others followed."""
    camera.take("fleet", "/")
    camera.take("calendar", "/calendar/")
    camera.take("availability", "/availability/?days=30")
    camera.take("cluster-availability", "/availability/billing/?days=30")
    camera.take("capacity", "/clusters/shop/capacity/")
    camera.take("what-if", "/availability/billing/what-if/")
    camera.take("audit", "/audit/?cluster=billing&action=rebuild")
    camera.take("backups", "/backups/history/?days=30")
    camera.take("lineage", "/instances/shop-r1/lineage/")
    camera.take("past-rebuilds", "/rebuilds/")


def is_well_under_way(page: Page) -> None:
    expect(figure(page, "Done")).to_have_text(re.compile(ENOUGH_DONE), use_inner_text=True, timeout=180_000)
    expect(page.locator("#live-state")).to_have_text("Live")


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="script/screenshots", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", default="1G", help="data on each host of the larger cluster (default 1G)")
    parser.add_argument("--of", choices=("lab", "sample"), help="only the pictures of the lab, or of the sample")
    parser.add_argument("--images", type=Path, default=IMAGES, help="where the docs' pictures go (default docs/images)")
    parser.add_argument("--every-size", type=Path, metavar="FOLDER", help="where those of every size go")
    return parser.parse_args(arguments)


def main(options: argparse.Namespace) -> None:
    for folder in (options.images, options.every_size):
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
    with running_chromium() as browser:
        if options.of != "lab":
            with running_sample() as url, camera_at(browser, url, (VIEWER, VIEWER_PASSWORD), options) as camera:
                take_sample(camera)
        if options.of != "sample":
            with (
                two_clusters(options.size) as stack,
                camera_at(browser, stack.url, (OPERATOR, OPERATOR_PASSWORD), options) as camera,
            ):
                take_lab(stack, camera)


@contextmanager
def camera_at(browser: Browser, url: str, person: tuple[str, str], options: argparse.Namespace) -> Iterator[Camera]:
    """Have a person logged in who holds a camera; tell afterwards what went wrong in the browser."""
    seen_by = visitor(browser, url, viewport=SIZE, color_scheme="light")
    seen_by.log_in(*person)
    yield Camera(browser, seen_by, options.images, options.every_size)
    for fault in seen_by.faults:
        print(f"FAULT: {fault}", flush=True)
    seen_by.context.close()


if __name__ == "__main__":
    main(parse(sys.argv[1:]))
