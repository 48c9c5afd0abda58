"""Every operation asks for the role on its cluster; those of the whole fleet are named here."""

import ast
from pathlib import Path

OPERATIONS = Path(__file__).parents[3] / "dbops" / "operations"
#: Functions that need the role everywhere: hosts, instances, new objects, host keys, paths in Vault.
OF_THE_FLEET = {
    *("fleet.accept_host_key", "fleet.delete", "fleet.require_to_save", "fleet._require_paths"),
    "host_access.require_on_hosts",
}


def test_operations_without_a_cluster_are_those_of_the_fleet() -> None:
    found, asked = set(), 0
    for path in OPERATIONS.glob("*.py"):
        functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
        for function in functions:
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                    positions = {"require_operator": 3, "require": 4}.get(call.func.id)
                    asked += positions is not None
                    if positions is not None and len(call.args) < positions:
                        found.add(f"{path.stem}.{function.name}")
    assert found == OF_THE_FLEET
    assert asked > 30
