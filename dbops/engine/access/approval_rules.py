"""How many people approve a rebuild, who they may be, and which of them count as one person."""

from collections.abc import Iterable
from dataclasses import dataclass

from dbops.engine.access.roles import Action

MOST_APPROVALS = 5
#: Characters of the logins under which one command ran.
MOST_LOGIN = 400
#: Accounts that ``manage.py`` makes for users of the dashboard's machine.
COMMAND_PREFIX = "cli-"


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """How many other people must approve a rebuild (0: none), and whether only approvers may."""

    count: int = 0
    only_approvers: bool = False

    @property
    def action(self) -> Action:
        """What a person must be allowed to do to approve."""
        return Action.SIGN_OFF if self.only_approvers else Action.APPROVE


def person(account: str, logins: Iterable[str] = ()) -> frozenset[str]:
    """Return the names that a person acted under: the account, and the logins of the machine for a command."""
    names = (account, *logins)
    return frozenset(name.casefold().removeprefix(COMMAND_PREFIX) for name in names if name)


def is_same(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether two actions may be those of one person: a name is in both."""
    return bool(one & other)
