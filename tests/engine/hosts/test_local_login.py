"""Which password may go into an option file on a host."""

import pytest

from dbops.engine.errors import Refused
from dbops.engine.flavors import flavor_for
from dbops.engine.hosts.local_login import Account, local_login


@pytest.mark.parametrize("account", [Account("u", "secret"), Account("u", "", is_shared=True)])
def test_mysql_gets_no_password_or_that_of_one_instance(account: Account) -> None:
    lines = local_login(flavor_for("9.7.4"), account, "/run/dbops", socket="/s").splitlines()
    assert f'password="{account.password}"' in lines
    places = [line for line in lines if line.startswith("plugin-dir")]
    assert places == [f'plugin-dir="{"/run/dbops/plugins" if account.password else ""}"'], "XtraBackup keeps its own"


def test_shared_password_is_withheld_from_mysql_alone() -> None:
    account = Account("u", "secret", is_shared=True)
    with pytest.raises(Refused) as caught:
        local_login(flavor_for("9.7.4"), account, "/run/dbops")
    assert caught.value.code == "credentials.shared"
    assert "secret" not in str(caught.value)
    assert 'password="secret"' in local_login(flavor_for("10.11.19-MariaDB"), account, "/run/dbops")
