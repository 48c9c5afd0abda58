"""Option files of client programs and backup tools that log in to the server on their own host."""

from dataclasses import dataclass, field

from dbops.engine.flavors.base import Flavor

#: Beside a run's jobs: links to the login plugins that a client may load (``remote/launcher.sh``).
PLUGINS = "plugins"


@dataclass(frozen=True, slots=True)
class Account:
    """A MySQL account. The password never shows in a repr; an empty one: socket authentication."""

    user: str
    password: str = field(repr=False)


NO_ACCOUNT = Account("", "")


def local_login(flavor: Flavor, account: Account, run_directory: str, *, socket: str = "") -> str:
    """Return the option file of one run. Arguments as of ``Flavor.credentials_file``.

    Raises:
        Refused: ``credentials.unwritable``.
    """
    return flavor.credentials_file(
        account.user, account.password, plugin_dir=f"{run_directory}/{PLUGINS}", socket=socket
    )
