"""Write the SBOM (CycloneDX, JSON) of an installed dbops: its Python packages and the libraries in static/vendor."""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote


def python_packages(python: Path, source: Path) -> dict[str, Any]:
    """Return the SBOM of an environment's packages, with dbops as the main component.

    Args:
        python: interpreter of the environment.
        source: folder with dbops's ``pyproject.toml``.
    """
    tool = Path(sys.executable).with_name("cyclonedx-py")
    words: list[str | Path] = [
        tool,
        "environment",
        "--output-reproducible",
        "--pyproject",
        source / "pyproject.toml",
        python,
    ]
    # It warns that the main component has no dependencies: `sbom` adds them.
    environment = os.environ | {"PYTHONWARNINGS": "ignore"}
    done = subprocess.run(words, stdout=subprocess.PIPE, env=environment, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def browser_libraries(source: Path) -> Iterator[dict[str, Any]]:
    """Yield a component for each package of ``static/vendor/VENDORED.json``, with its files and their checksums."""
    packages = json.loads((source / "static" / "vendor" / "VENDORED.json").read_text())
    for spec, entries in packages.items():
        name, _, version = spec.rpartition("@")
        group, _, short = name.rpartition("/")
        purl = f"pkg:npm/{quote(name, safe='/')}@{version}"
        yield {
            "type": "library",
            "bom-ref": purl,
            **({"group": group} if group else {}),
            "name": short,
            "version": version,
            "purl": purl,
            "components": [
                {
                    "type": "file",
                    "bom-ref": f"static/vendor/{entry['file']}",
                    "name": f"static/vendor/{entry['file']}",
                    "hashes": [{"alg": "SHA-256", "content": entry["sha256"]}],
                }
                for entry in entries
            ],
        }


def sbom(python: Path, source: Path) -> dict[str, Any]:
    """Return the whole SBOM. What no other package needs is a dependency of dbops itself."""
    found = python_packages(python, source)
    libraries = list(browser_libraries(source))
    main = found["metadata"]["component"]["bom-ref"]
    graph = {entry["ref"]: entry for entry in found["dependencies"]}
    graph |= {library["bom-ref"]: {"ref": library["bom-ref"]} for library in libraries}
    needed = {reference for entry in graph.values() for reference in entry.get("dependsOn", [])}
    graph[main] = {"ref": main, "dependsOn": sorted(graph.keys() - needed - {main})}
    found["components"] += libraries
    found["dependencies"] = [graph[reference] for reference in sorted(graph)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("python", type=Path, help="interpreter of the environment")
    parser.add_argument("source", type=Path, help="folder with pyproject.toml and static/")
    parser.add_argument("output", type=Path, help="file to write")
    arguments = parser.parse_args()
    text = json.dumps(sbom(arguments.python, arguments.source), indent=2, sort_keys=True)
    arguments.output.write_text(text.replace(os.fspath(arguments.source), ".") + "\n")


if __name__ == "__main__":
    main()
