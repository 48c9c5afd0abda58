"""Option file of the client program that logs in as the replication threads will: same account, TLS and plugins."""

from collections.abc import Mapping

from dbops.engine.flavors.base import Flavor
from dbops.engine.flavors.connection_options import value_of
from dbops.engine.flavors.optionfile import quoted

#: Files and lists by the end of the connection's option; the client has the same names in lower case.
_NAMES = ("SSL_CA", "SSL_CAPATH", "SSL_CERT", "SSL_KEY", "SSL_CIPHER", "SSL_CRL", "SSL_CRLPATH", "TLS_VERSION")
#: From this version on a MariaDB client wants TLS by default.
_TLS_BY_DEFAULT = (11, 4, 0)


def replication_login(
    flavor: Flavor, user: str, password: str, options: Mapping[str, str], *, plugin_dir: str = ""
) -> str:
    """Return the text of the option file. Write it with mode 0600.

    Args:
        options: of the connection (``flavors.connection_options``); empty: those of a new one.
        plugin_dir: the only directory with login plugins; the target's server loads its own ones, not those of the client.

    Raises:
        Refused: ``credentials.unwritable``.
    """
    lines = [f"plugin-dir={quoted(plugin_dir, 'plugin directory')}"] if plugin_dir else []
    if value_of("SSL", options) == "1":
        lines += _tls(flavor, options)
        for name in _NAMES:
            if value := value_of(name, options):
                lines.append(f"{name.lower().replace('_', '-')}={quoted(value, name)}")
    elif flavor.name == "mysql":
        # the host's client can be MariaDB's, which ends at an option that it does not know
        lines.append("loose-ssl-mode=DISABLED")
        if flavor.version >= (8, 0, 0):
            lines.append("loose-get-server-public-key=1")
    elif options or flavor.version < _TLS_BY_DEFAULT:
        lines.append("skip-ssl")
    account = [f"user={quoted(user, 'user name')}", f"password={quoted(password, 'password')}"]
    return "\n".join(["[client]", *account, *lines, ""])


def _tls(flavor: Flavor, options: Mapping[str, str]) -> list[str]:
    verifies = value_of("SSL_VERIFY_SERVER_CERT", options) == "1"
    if flavor.name == "mariadb":
        return ["ssl", f"ssl-verify-server-cert={int(verifies)}"]
    knows_ca = value_of("SSL_CA", options) or value_of("SSL_CAPATH", options)
    mode = "VERIFY_IDENTITY" if verifies else "VERIFY_CA" if knows_ca else "REQUIRED"
    return [f"loose-ssl-mode={mode}"]
