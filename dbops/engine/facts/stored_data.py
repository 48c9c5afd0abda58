"""Facts of the data itself: where its files are, what they need to be read, and what they lack."""

import re
from dataclasses import dataclass, field

#: Files of data, as opposed to certificates and logs.
DATA_FILE = re.compile(
    r".*\.(ibd|ibu|frm|MYD|MYI|MAD|MAI|MRG|CSV|CSM|ARZ|sym)"
    r"|ib(data|tmp|_logfile|_buffer).*|#innodb.*|undo.*|aria_log.*|mysql\.ibd"
)


@dataclass(frozen=True, slots=True)
class FileLink:
    """A symbolic link or an ``.isl`` file in a data directory.

    ``kind`` is ``d`` for a link to a directory, ``f`` to a file, ``N`` to nothing, ``i`` for an ``.isl``. ``path`` is relative to
    the data directory.
    """

    kind: str
    path: str
    target: str = ""

    @property
    def is_schema(self) -> bool:
        return self.kind == "d" and "/" not in self.path and not DATA_FILE.fullmatch(self.path)

    @property
    def is_data(self) -> bool:
        """Whether it replaces a file of data: also a link to nothing, whose data is unreadable."""
        return self.kind == "i" or bool(DATA_FILE.fullmatch(self.path.rpartition("/")[2]))


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """What the host shows of a data directory and its server's keys.

    ``links`` is ``None`` if the walk did not end in time. ``keys`` is a SHA-256 over key ids and keys that the option files name,
    ``""`` without such an option, ``unreadable`` if the file could not be read, and begins with ``sealed:`` where only the
    encrypted key file could be compared. ``manifest`` are the components that MySQL's manifest loads at the start. ``libraries`` are
    the file names in the plugin directory, ``None`` if there is no such directory.
    """

    links: tuple[FileLink, ...] | None = None
    keys: str = ""
    manifest: tuple[str, ...] = ()
    libraries: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class LoadedPlugin:
    """An active plugin from a library. ``is_installed``: by a row of ``mysql.plugin``, which a copy brings along; ``None``: unknown."""

    name: str
    library: str
    kind: str
    is_installed: bool | None = None


@dataclass(frozen=True, slots=True)
class StoredData:
    """What the server reports about its data. Lists are bounded.

    ``outside_files`` are absolute paths of tablespaces outside the data directory. ``encrypted_spaces`` counts encrypted InnoDB
    tablespaces; ``encrypted_logs`` names other encrypted files. ``account_plugins`` are the authentication plugins of accounts,
    ``None`` if the account of dbops cannot read them. ``components`` are MySQL's. ``settings`` are start-up settings that the data
    depends on. ``has_time_zones``: the time zone tables have rows; ``None``: not read. ``binlog_filters`` limit what the
    server writes to its binary log.
    """

    outside_files: tuple[str, ...] = ()
    encrypted_spaces: int = 0
    encrypted_logs: tuple[str, ...] = ()
    plugins: tuple[LoadedPlugin, ...] = ()
    account_plugins: tuple[str, ...] | None = None
    components: tuple[str, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)
    has_time_zones: bool | None = None
    time_zone: str = ""
    plugin_dir: str = ""
    binlog_filters: dict[str, str] = field(default_factory=dict)

    @property
    def is_encrypted(self) -> bool:
        return bool(self.encrypted_spaces or self.encrypted_logs)
