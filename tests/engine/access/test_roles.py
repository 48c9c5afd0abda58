"""The table role x action x cluster, cell by cell."""

import pytest

from dbops.engine.access.roles import AccessRole, Action, HeldRoles, may, may_somewhere

HERE, ELSEWHERE = 1, 2
ACTIONS = (Action.VIEW, Action.OPERATE, Action.APPROVE, Action.SIGN_OFF, Action.ADMINISTER)
#: What each role allows, in the order of ``ACTIONS``.
TABLE = {
    AccessRole.VIEWER: "y....",
    AccessRole.OPERATOR: "yyy..",
    AccessRole.APPROVER: "y.yy.",
    AccessRole.ADMIN: "yyyyy",
}


def cells(roles: HeldRoles, cluster: int | None) -> str:
    return "".join("y" if may(roles, action, cluster) else "." for action in ACTIONS)


def test_every_role_and_action_is_in_the_table() -> None:
    assert (set(TABLE), set(ACTIONS)) == (set(AccessRole), set(Action))


@pytest.mark.parametrize("role", AccessRole)
def test_role_everywhere_counts_on_clusters_and_on_the_fleet(role: AccessRole) -> None:
    held = HeldRoles(frozenset({role}))
    assert {cells(held, cluster) for cluster in (HERE, ELSEWHERE, None)} == {TABLE[role]}


@pytest.mark.parametrize("role", AccessRole)
def test_role_on_a_cluster_counts_there_alone(role: AccessRole) -> None:
    held = HeldRoles(frozenset({AccessRole.VIEWER}), {HERE: frozenset({role})})
    assert cells(held, HERE) == TABLE[role]
    assert cells(held, ELSEWHERE) == cells(held, None) == TABLE[AccessRole.VIEWER]
    assert [may_somewhere(held, action) for action in ACTIONS] == [cell == "y" for cell in TABLE[role]]


def test_roles_add_up() -> None:
    held = HeldRoles(frozenset({AccessRole.OPERATOR}), {HERE: frozenset({AccessRole.APPROVER})})
    assert (cells(held, HERE), cells(held, ELSEWHERE)) == ("yyyy.", TABLE[AccessRole.OPERATOR])


@pytest.mark.parametrize("role", AccessRole)
def test_role_on_a_cluster_counts_only_for_who_can_view(role: AccessRole) -> None:
    held = HeldRoles(on={HERE: frozenset({role})})
    assert {cells(held, cluster) for cluster in (HERE, ELSEWHERE, None)} == {"....."}
    assert not any(may_somewhere(held, action) for action in ACTIONS)
