"""MySQL with Percona XtraBackup: no registry has both, so these tests run where a developer has installed them.

A test of another file that is imported into a file with such servers runs there on these servers too.
"""

import re
import subprocess
from collections.abc import Mapping

import pytest

from dbops.engine.flavors import flavor_for
from lab.checks import find_program
from lab.flavors.old_mysql import xtrabackup_programs
from lab.unpacked import MYSQL_5_7, installed_mysql


def _output(program: str, *words: str) -> str:
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False, timeout=60)
    return done.stdout + done.stderr


def _why_not(server: str | None, tools: Mapping[str, str]) -> str:
    """Return why a server cannot be backed up here, ``""`` if it can. Nothing is started where a program is missing."""
    missing = [name for name, path in {"mysqld": server, **tools}.items() if not path]
    if missing or not server:
        return f"needs MySQL with its XtraBackup; not installed: {', '.join(missing)}"
    version = re.search(r"Ver (\d+\.\d+\.\d+)", _output(server, "--no-defaults", "--version"))
    assert version, server
    flavor = flavor_for(version[1], "mysql")
    return flavor.tool_problem(flavor.parse_tool_version(_output(tools["xtrabackup"], "--version")))


def _why_no_5_7() -> str:
    folder = None if MYSQL_5_7.why_not() else MYSQL_5_7.folder()
    found = dict.fromkeys(("xtrabackup", "xbstream"), "") | xtrabackup_programs()
    return _why_not(MYSQL_5_7.programs(folder)["mysqld"] if folder else None, found)


def _why_no_installed() -> str:
    return _why_not(installed_mysql(), {name: find_program(name) or "" for name in ("xtrabackup", "xbstream")})


WHY_NOT = {"mysql": _why_no_installed(), "mysql-5.7": _why_no_5_7()}
#: Parameters of a fixture: the lab's flavors.
FLAVORS = [
    pytest.param(flavor, marks=pytest.mark.skipif(bool(why), reason=why or "it is here"))
    for flavor, why in WHY_NOT.items()
]
