"""Read the output and files of a backup tool on its host."""

import base64
from collections.abc import Mapping

from dbops.engine.flavors import Flavor

#: mariadb-backup only warns of this, and then copies the other server's files with "completed OK!" (measured with 10.11.19).
OTHER_DATADIR = "option 'datadir' has different values"


KILLED_STATUSES = {128 + number: number for number in (2, 9, 15)}


def decode_files(output: str) -> dict[str, str]:
    """Return the files that our scripts print, one line ``NAME BASE64`` each."""
    lines = (line.partition(" ") for line in output.splitlines() if line.strip())
    return {name: base64.b64decode(content).decode("utf-8", "replace") for name, _, content in lines}


def first_of(flavor: Flavor, kind: str, files: Mapping[str, str]) -> str | None:
    """Return the content of a metadata file under any of its names."""
    return next((files[name] for name in flavor.metadata_files[kind] if name in files), None)
