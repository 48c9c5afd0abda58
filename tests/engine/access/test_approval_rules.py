"""Who counts as one person, and which rule satisfies several."""

from dbops.engine.access.approval_rules import ApprovalRule, is_same, person
from dbops.engine.access.roles import Action


def test_account_of_a_command_is_its_user() -> None:
    assert is_same(person("anna"), person("cli-anna"))
    assert is_same(person("Anna"), person("bob", ["root", "anna"]))
    assert not is_same(person("anna"), person("bob", ["root"]))
    assert not is_same(person("", [""]), person("", [""]))


def test_rule_names_the_action() -> None:
    assert (ApprovalRule(2).action, ApprovalRule(2, only_approvers=True).action) == (Action.APPROVE, Action.SIGN_OFF)
