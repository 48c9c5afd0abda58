"""Write option files with credentials, quoted for the servers' own parser.

Measured with ``my_print_defaults`` 10.11.19 (one parser serves all tools of both flavors): in double quotes with ``\\`` and ``"``
escaped any text is preserved, also with ``#``, ``;``, ``'``, leading and trailing blanks, ``[mysqld]`` and bytes above 127. A
line of more than 4095 bytes is broken in two. A whole option file that is world-writable is ignored without a message.

Every file is complete: the tools never read the server's own option file, whose ``[client]`` and tool sections can send a tool to
another server or leave out databases. ``tool_options`` names what a backup tool needs of it.
"""

from collections.abc import Sequence

from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase

#: Option of a private server on MySQL: what ``SET PERSIST`` wrote wins over every option (measured with 9.7.4).
NOT_PERSISTED = "--loose-persisted-globals-load=OFF"
#: The parser's buffer, minus some room for the name.
LONGEST_LINE_BYTES = 4000


def quoted(value: str, name: str) -> str:
    """Return ``value`` in double quotes.

    Raises:
        Refused: ``credentials.unwritable``: it holds a newline, a carriage return or a NUL, or is too long for one
        line.
    """
    if any(character in value for character in "\n\r\0") or len(value.encode()) * 2 > LONGEST_LINE_BYTES:
        raise Refused(
            "credentials.unwritable",
            phrase("Writing the {name} into an option file", name=name),
            cause=phrase("it contains a line break or a NUL byte, or is too long for an option file"),
        )
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def credentials_text(groups: Sequence[str], user: str, password: str, *, socket: str = "", plugin_dir: str = "") -> str:
    """Return an option file with the same credentials in each of ``groups``, for the server on the same machine.

    ``plugin_dir``: the only directory with login plugins. MariaDB's clients load ``dialog.so`` and ``mysql_clear_password.so`` from
    their own one when the server asks, and then send the password in clear (measured with 10.11.19 and 11.8.9). No line turns off
    MySQL's built-in method: it is off by default, and MariaDB's clients end at ``enable-cleartext-plugin=0``.

    The caller writes it with mode 0600 and passes it as ``--defaults-file``, which must be a program's first argument: it then
    reads no other file. ``local-infile``: a server can ask a client for any file, which older clients send. ``host`` and
    ``protocol`` hold off a TCP connection; ``loose-``: XtraBackup has no ``protocol``.

    Raises:
        Refused: ``credentials.unwritable``.
    """
    login = ["user=" + quoted(user, phrase("user name")), "password=" + quoted(password, phrase("password"))]
    lines = []
    for group in groups:
        lines += [f"[{group}]", *login]
        lines += ["host=localhost", "loose-protocol=socket"]
        if socket:
            lines.append("socket=" + quoted(socket, phrase("socket path")))
        # XtraBackup loads keyring plugins from there, too
        if group != "xtrabackup":
            # nothing is lost without a password, and MariaDB's client needs a plugin for MySQL's auth_socket
            lines.append("plugin-dir=" + quoted(plugin_dir if password else "", phrase("plugin directory")))
    return "\n".join([*lines, "[mysql]", "local-infile=0"]) + "\n"


def option_words(defaults_file: str, group_suffix: str = "") -> list[str]:
    """Return the first words of a server's command: its option file, and the suffix of further groups (``mysqld@NAME``)."""
    return [f"--defaults-file={defaults_file}", *([f"--defaults-group-suffix={group_suffix}"] if group_suffix else [])]
