"""Option files of client programs and backup tools that log in to the server on their own host."""

from dataclasses import dataclass, field

from dbops.engine.errors import Refused
from dbops.engine.flavors.base import Flavor
from dbops.engine.phrases import phrase

#: Beside a run's jobs: links to the login plugins that a client may load (``remote/launcher.sh``).
PLUGINS = "plugins"


@dataclass(frozen=True, slots=True)
class Account:
    """A MySQL account. The password never shows in a repr; an empty one: socket authentication.

    ``is_shared``: the cluster's, so that the password opens its other servers, too.
    """

    user: str
    password: str = field(repr=False)
    is_shared: bool = field(default=False, compare=False)


NO_ACCOUNT = Account("", "")


def why_withheld(flavor: Flavor, account: Account) -> str:
    """Return why a password must not go to a server's socket, ``""`` if it may.

    MySQL's client sends the whole password over a socket when the server asks (measured with 9.7.4), and no option forbids it.
    """
    if flavor.name != "mysql" or not account.password or not account.is_shared:
        return ""
    return phrase(
        "the password of {user} opens other servers, and MySQL's client reveals it to this one", user=account.user
    )


def local_login(flavor: Flavor, account: Account, run_directory: str, *, socket: str = "") -> str:
    """Return the option file of one run. Arguments as of ``Flavor.credentials_file``.

    Raises:
        Refused: ``credentials.unwritable``; ``credentials.shared``: see ``why_withheld``.
    """
    if reason := why_withheld(flavor, account):
        raise Refused("credentials.shared", phrase("Logging in to a server on its own host"), cause=reason)
    return flavor.credentials_file(
        account.user, account.password, plugin_dir=f"{run_directory}/{PLUGINS}", socket=socket
    )
