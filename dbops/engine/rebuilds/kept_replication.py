"""How the target replicated before the rebuild, as far as the rebuild restores it. Part of the frozen plan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from dbops.engine.flavors.connection_options import name_of, same_filter, value_of

#: The name of the setting for the server that the target follows.
SOURCE_LINE = "source"


class Fate(StrEnum):
    """What becomes of a setting."""

    KEPT = "kept"
    CHANGED = "changed"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class KeptSetting:
    """One setting as the plan shows it. ``reason`` says why it is not kept."""

    name: str
    before: str
    after: str
    fate: Fate
    reason: str = ""


@dataclass(frozen=True, slots=True)
class KeptReplication:
    """The replication connection that the rebuild makes again, and what the plan shows of it.

    ``followed`` is the server that it followed, as ``host:port``. ``options`` are all settings that the connection must have at the end,
    ``filters`` its filters (``flavors.connection_options``). ``variables`` are global variables that were set at run time
    (``flavors.run_time_settings``). ``settings`` are the lines of the plan page. ``is_last_known``: read earlier, as the server is down
    or holds an incomplete copy.
    """

    channel: str = ""
    followed: str = ""
    options: dict[str, str] = field(default_factory=dict)
    filters: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    settings: tuple[KeptSetting, ...] = ()
    is_last_known: bool = False

    @property
    def kept_count(self) -> int:
        return sum(one.fate is Fate.KEPT for one in self.settings)

    @property
    def while_catching_up(self) -> dict[str, str]:
        """Return the options for following the copied server: its transport, but no delay and no filter.

        The copy has all of that server's data, and a filter would only let both differ.
        """
        left_out = {"DO_DOMAIN_IDS", "IGNORE_DOMAIN_IDS", "IGNORE_SERVER_IDS", name_of("DELAY", self.options)}
        return {name: value for name, value in self.options.items() if name not in left_out}

    @property
    def before_verification(self) -> dict[str, str]:
        """Return the options for following the primary until the copy is verified: all but the delay, which would hide its lag."""
        delay = name_of("DELAY", self.options)
        return {name: value for name, value in self.options.items() if name != delay}

    @property
    def delay_seconds(self) -> int:
        return int(value_of("DELAY", self.options) or 0)

    @property
    def tls(self) -> bool:
        return value_of("SSL", self.options) == "1"

    def differing(self, options: Mapping[str, str]) -> dict[str, str]:
        """Return the wanted options that a connection with ``options`` does not have."""
        return {name: value for name, value in self.options.items() if not same_value(options.get(name), value)}

    def differing_filters(self, filters: Mapping[str, str], names: Sequence[str]) -> tuple[str, ...]:
        """Return which of the filters ``names`` differ between a connection with ``filters`` and the plan."""
        return tuple(name for name in names if not same_filter(name, filters.get(name, ""), self.filters.get(name, "")))


def same_value(have: str | None, want: str) -> bool:
    """Compare values: ``30`` and ``30.000`` are equal."""
    if have is None or have == want:
        return have is not None
    try:
        return float(have) == float(want)
    except ValueError:
        return False
