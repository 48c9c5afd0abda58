"""script/bench fleet: time the fleet page of a large fleet with a week of runs, on the server and in a browser.

Uses a temporary database. Asserts nothing; tests/app/web/test_fleet.py asserts the number of queries.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from script.lib import supervisor
from script.lib.bench_ground import headline, scratch
from script.lib.stage import PYTHON, ROOT
from script.lib.supervisor import Failed, Process

try:
    from playwright.sync_api import sync_playwright
except ImportError:  # installed with the test dependencies
    sync_playwright = None  # type: ignore[assignment]

CHROMIUM = Path("/usr/bin/chromium-headless-shell")
MEASURES = {
    "bytes of the document": "performance.getEntriesByType('navigation')[0].decodedBodySize",
    "elements": "document.getElementsByTagName('*').length",
    "first byte ms": "performance.getEntriesByType('navigation')[0].responseStart",
    "DOM ready ms": "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd",
    "painted ms": "(performance.getEntriesByName('first-contentful-paint')[0] || {}).startTime",
    "relayout ms": """(() => { const at = performance.now(); document.body.style.width = '90%';
        document.body.offsetHeight; document.body.style.width = ''; document.body.offsetHeight;
        return performance.now() - at; })()""",
}


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="script/bench fleet", description=__doc__)
    parser.add_argument("--clusters", type=int, default=1000, help="clusters (default 1000)")
    parser.add_argument(
        "--replicas", type=int, default=3, help="replicas per cluster, besides primary and backup (default 3)"
    )
    parser.add_argument("--rounds", type=int, default=15, help="repetitions per page (default 15)")
    parser.add_argument("--json", action="store_true", help="print one JSON object last")
    return parser.parse_args(arguments)


def environment(folder: Path) -> dict[str, str]:
    """Return dbops's environment with a temporary database and facts that do not become outdated."""
    return {
        **os.environ,
        "DBOPS_STATE_DIR": str(folder),
        "DBOPS_DATABASE_URL": f"sqlite:///{folder / 'fleet.sqlite3'}",
        "DBOPS_FACTS_MAX_AGE_SECONDS": "86400",
        "DBOPS_WEB_PORT": str(supervisor.free_port(8600)),
    }


def on_the_server(options: argparse.Namespace, variables: dict[str, str]) -> dict[str, Any]:
    words = ["-m", "script.lib.bench_fleet_server", str(options.clusters), str(options.replicas), str(options.rounds)]
    done = subprocess.run([PYTHON, *words], env=variables, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"measuring on the server: {done.stderr[-1500:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def in_a_browser(folder: Path, variables: dict[str, str], session: str) -> dict[str, float]:
    """Load the fleet page five times and return the medians of the browser's own measurements."""
    web = Process("web", [str(ROOT / "script" / "run"), "web"], variables, folder)
    web.start()
    url = f"http://127.0.0.1:{variables['DBOPS_WEB_PORT']}/"
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
            context = browser.new_context(viewport={"width": 1440, "height": 900})
            context.add_cookies([{"name": "sessionid", "value": session, "url": url}])
            page = context.new_page()
            for _ in range(100):
                try:
                    page.goto(url)
                    break
                except Exception:
                    page.wait_for_timeout(200)
            rounds = []
            for _ in range(5):
                page.goto(url, wait_until="load")
                page.wait_for_timeout(200)
                rounds.append({name: float(page.evaluate(script) or 0) for name, script in MEASURES.items()})
            browser.close()
    finally:
        web.stop(10.0)
    return {name: sorted(item[name] for item in rounds)[len(rounds) // 2] for name in MEASURES}


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    with scratch() as folder:
        variables = environment(folder)
        try:
            print(f"making {options.clusters} clusters with a week of runs", flush=True)
            server = on_the_server(options, variables)
            browser = {}
            if sync_playwright is not None and CHROMIUM.exists():
                browser = in_a_browser(folder, variables, server.pop("session"))
        except Failed as error:
            print(f"Failed: {error}")
            return 1
    print(f"\n{headline('fleet', arguments, f'load {os.getloadavg()[0]:.1f}')}")
    print(f"{server['clusters']} clusters, {server['instances']} instances, {server['runs']} backup runs\n")
    print("| page | median ms | min ms | processor ms (min) | queries | bytes |\n|---|---|---|---|---|---|")
    for page, found in server["pages"].items():
        numbers = [found["median_ms"], found["min_ms"], found["cpu_ms"], found["queries"], found["bytes"]]
        print(f"| {page} | {' | '.join(f'{number:,.0f}' for number in numbers)} |")
    if browser:
        print("\n| fleet page in Chromium | median of 5 |\n|---|---|")
        print("\n".join(f"| {name} | {number:,.0f} |" for name, number in browser.items()))
    else:
        print("\nNo browser. Run script/test once to install Playwright and Chromium.")
    if options.json:
        print(json.dumps({"server": server, "browser": browser}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
