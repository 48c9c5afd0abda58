"""Ask an OSV service for known vulnerabilities of pinned packages, with pip-audit; see ``script/vulnerabilities``."""

import argparse
import json
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SERVICE = "https://api.osv.dev/v1/query"
CONNECT_SECONDS, REQUEST_SECONDS, ALL_SECONDS = 5, 15, 300
LONGEST = timedelta(days=90)


@dataclass(frozen=True, slots=True)
class Accepted:
    """One entry of the list of accepted vulnerabilities. ``until``: the last day on which it counts, in UTC."""

    id: str
    package: str
    reason: str
    until: date


def read_accepted(file: Path, today: date) -> list[Accepted]:
    """Return the accepted vulnerabilities of a TOML file that still count.

    Raises:
        ValueError: An entry has no reason or day, a wrong field, or a day too far ahead.
    """
    found = []
    for entry in tomllib.loads(file.read_text()).get("accepted", []):
        if set(entry) != {field.name for field in fields(Accepted)} or not str(entry["reason"]).strip():
            raise ValueError(f"{file.name}: {entry} needs id, package, reason and until, and nothing else")
        one = Accepted(**entry)
        if type(one.until) is not date or one.until > today + LONGEST:
            raise ValueError(f"{file.name}: {one.id}: until must be a day, {LONGEST.days} days ahead at most")
        found.append(one)
    return [one for one in found if one.until >= today]


def why_unreachable(service: str) -> str:
    """Return why the service does not answer; empty if it does. It takes seconds at most."""
    body = json.dumps({"package": {"name": "pip", "ecosystem": "PyPI"}, "version": "0"}).encode()
    request = urllib.request.Request(service, data=body, headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=CONNECT_SECONDS) as answer:
            json.load(answer)
    except (OSError, ValueError) as error:
        return str(error)
    return ""


def audit(requirements: Path, service: str) -> list[dict[str, Any]]:
    """Return pip-audit's packages with their vulnerabilities.

    Raises:
        RuntimeError: It gave no result.
    """
    words: list[str | Path] = [
        *(sys.executable, "-m", "pip_audit", "--requirement", requirements, "--no-deps", "--disable-pip"),
        *("--vulnerability-service", "osv", "--osv-url", service, "--timeout", str(REQUEST_SECONDS)),
        *("--format", "json", "--progress-spinner", "off"),
    ]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=ALL_SECONDS)
        packages: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"pip-audit did not end within {ALL_SECONDS} s") from error
    except (ValueError, KeyError) as error:
        raise RuntimeError(f"pip-audit failed with status {done.returncode}:\n{done.stderr[-2000:]}") from error
    return packages


def reported(packages: list[dict[str, Any]], accepted: list[Accepted]) -> Iterator[str]:
    """Yield a line for each vulnerability that is not accepted, and for each package that was not looked up."""
    for package in packages:
        if reason := package.get("skip_reason"):
            yield f"{package['name']}: not looked up: {reason}"
        ids_accepted = {found.id for found in accepted if found.package.lower() == package["name"].lower()}
        for found in package.get("vulns", []):
            if not ids_accepted & {found["id"], *found["aliases"]}:
                fixed = ", ".join(found["fix_versions"]) or "no version"
                ids = " ".join([found["id"], *found["aliases"]])
                yield f"{package['name']} {package['version']}: {ids}; fixed in: {fixed}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--service", default=SERVICE, help="address of the service's query")
    parser.add_argument("--requirements", type=Path, default=ROOT / "constraints.txt", help="pinned packages")
    parser.add_argument("--accepted", type=Path, default=ROOT / "script" / "lib" / "vulnerabilities.toml")
    arguments = parser.parse_args()
    try:
        accepted = read_accepted(arguments.accepted, datetime.now(UTC).date())
        if why := why_unreachable(arguments.service):
            print(f"Not run: {arguments.service} does not answer ({why}). Known vulnerabilities were not looked up.")
            return 0
        packages = audit(arguments.requirements, arguments.service)
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    lines = list(reported(packages, accepted))
    print(*lines or [f"No known vulnerability in {len(packages)} packages."], sep="\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
