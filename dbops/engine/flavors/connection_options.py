"""Settings of one replication connection: read from a status row, written as words of a CHANGE statement.

Values are text in one normal form: ``1`` and ``0`` for switches, ``7,8`` for lists, ``""`` for unset. Names are those of the
CHANGE statement, so that what was read can be written again, and both can be compared.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from dbops.engine.flavors.sql_text import sql_name, sql_text


class ValueKind(Enum):
    """How a value is written."""

    SWITCH = auto()
    NUMBER = auto()
    TEXT = auto()
    LIST = auto()
    WORD = auto()


@dataclass(frozen=True, slots=True)
class Option:
    """One option. ``default`` is that of a new connection and is not written; ``None``: it differs between servers."""

    name: str
    kind: ValueKind
    columns: tuple[str, ...]
    default: str | None = None


def _tls(word: str, sides: Sequence[str], capath: str) -> tuple[Option, ...]:
    def columns(end: str) -> tuple[str, ...]:
        return tuple(f"{side}_SSL_{end}" for side in sides)

    return (
        Option(f"{word}_SSL", ValueKind.SWITCH, columns("Allowed")),
        Option(f"{word}_SSL_CA", ValueKind.TEXT, columns("CA_File"), ""),
        Option(f"{word}_SSL_{capath}", ValueKind.TEXT, columns("CA_Path"), ""),
        Option(f"{word}_SSL_CERT", ValueKind.TEXT, columns("Cert"), ""),
        Option(f"{word}_SSL_KEY", ValueKind.TEXT, columns("Key"), ""),
        Option(f"{word}_SSL_CIPHER", ValueKind.TEXT, columns("Cipher"), ""),
        Option(f"{word}_SSL_CRL", ValueKind.TEXT, columns("Crl"), ""),
        Option(f"{word}_SSL_CRLPATH", ValueKind.TEXT, columns("Crlpath"), ""),
        Option(f"{word}_SSL_VERIFY_SERVER_CERT", ValueKind.SWITCH, columns("Verify_Server_Cert")),
    )


MARIADB: tuple[Option, ...] = (
    *_tls("MASTER", ("Master",), "CAPATH"),
    Option("MASTER_CONNECT_RETRY", ValueKind.NUMBER, ("Connect_Retry",)),
    Option("MASTER_RETRY_COUNT", ValueKind.NUMBER, ("Master_Retry_Count",)),
    Option("MASTER_HEARTBEAT_PERIOD", ValueKind.NUMBER, ("Slave_heartbeat_period",)),
    Option("MASTER_DELAY", ValueKind.NUMBER, ("SQL_Delay",), "0"),
    Option("DO_DOMAIN_IDS", ValueKind.LIST, ("Replicate_Do_Domain_Ids",), ""),
    Option("IGNORE_DOMAIN_IDS", ValueKind.LIST, ("Replicate_Ignore_Domain_Ids",), ""),
    Option("IGNORE_SERVER_IDS", ValueKind.LIST, ("Replicate_Ignore_Server_Ids",), ""),
)


def mysql_options(word: str) -> tuple[Option, ...]:
    """Return the options of MySQL. ``word``: ``SOURCE``, or ``MASTER`` before 8.0.23.

    Columns in capitals come from ``performance_schema``; a version without a column lacks the option.
    """
    return (
        *_tls(word, ("Source", "Master"), "CAPATH"),
        Option(f"{word}_TLS_VERSION", ValueKind.TEXT, ("Source_TLS_Version", "Master_TLS_Version"), ""),
        Option(f"{word}_TLS_CIPHERSUITES", ValueKind.TEXT, ("TLS_CIPHERSUITES",), ""),
        Option(f"{word}_PUBLIC_KEY_PATH", ValueKind.TEXT, ("Source_public_key_path", "Master_public_key_path"), ""),
        Option(f"{word}_BIND", ValueKind.TEXT, ("Source_Bind", "Master_Bind"), ""),
        Option("NETWORK_NAMESPACE", ValueKind.TEXT, ("Network_Namespace",), ""),
        Option(f"{word}_CONNECT_RETRY", ValueKind.NUMBER, ("Connect_Retry",)),
        Option(f"{word}_RETRY_COUNT", ValueKind.NUMBER, ("Source_Retry_Count", "Master_Retry_Count")),
        Option(f"{word}_HEARTBEAT_PERIOD", ValueKind.NUMBER, ("HEARTBEAT_INTERVAL",)),
        Option(f"{word}_COMPRESSION_ALGORITHMS", ValueKind.TEXT, ("COMPRESSION_ALGORITHM",), "uncompressed"),
        Option(f"{word}_ZSTD_COMPRESSION_LEVEL", ValueKind.NUMBER, ("ZSTD_COMPRESSION_LEVEL",), "3"),
        Option(f"{word}_DELAY", ValueKind.NUMBER, ("SQL_Delay",), "0"),
        Option("IGNORE_SERVER_IDS", ValueKind.LIST, ("Replicate_Ignore_Server_Ids",), ""),
        Option("PRIVILEGE_CHECKS_USER", ValueKind.WORD, ("PRIVILEGE_CHECKS_USER",), ""),
        Option("REQUIRE_ROW_FORMAT", ValueKind.SWITCH, ("REQUIRE_ROW_FORMAT",), "0"),
        Option("REQUIRE_TABLE_PRIMARY_KEY_CHECK", ValueKind.WORD, ("REQUIRE_TABLE_PRIMARY_KEY_CHECK",), "STREAM"),
        Option("SOURCE_CONNECTION_AUTO_FAILOVER", ValueKind.SWITCH, ("SOURCE_CONNECTION_AUTO_FAILOVER",), "0"),
        Option("GTID_ONLY", ValueKind.SWITCH, ("GTID_ONLY",), "0"),
    )


#: Filters of a connection, by their column in both flavors.
FILTERS = (
    "Replicate_Do_DB",
    "Replicate_Ignore_DB",
    "Replicate_Do_Table",
    "Replicate_Ignore_Table",
    "Replicate_Wild_Do_Table",
    "Replicate_Wild_Ignore_Table",
    "Replicate_Rewrite_DB",
)

#: Values that are written as they are: words, and accounts as MySQL prints them.
_WORD = re.compile(r"[A-Z_]+|'[^'\\]*'@'[^'\\]*'")
_NUMBER = re.compile(r"\d+(\.\d+)?")


def options_from(row: Mapping[str, Any], table: Sequence[Option]) -> dict[str, str]:
    """Return the options that the row has, in normal form."""
    found: dict[str, str] = {}
    for option in table:
        value = next((row[name] for name in option.columns if name in row), None)
        if any(name in row for name in option.columns):
            found[option.name] = _normal(option.kind, "" if value in (None, "NULL") else str(value))
    return found


def _normal(kind: ValueKind, value: str) -> str:
    if kind is ValueKind.SWITCH:
        return "0" if value.upper() in ("", "NO", "0", "OFF") else "1"
    if kind is ValueKind.LIST:
        return ",".join(re.findall(r"\d+", value))
    return value.strip()


def filters_from(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the filters of the row that are set."""
    values = {name: str(row.get(name) or "") for name in FILTERS}
    return {name: value for name, value in values.items() if value not in ("", "NULL")}


def words_of(options: Mapping[str, str], table: Sequence[Option]) -> list[str]:
    """Return the options as words of a CHANGE statement; ``%`` is doubled, as a statement with parameters needs it."""
    words = []
    for option in table:
        value = options.get(option.name)
        if value is None or value == option.default:
            continue
        written = _written(option.kind, value)
        if written is not None:
            words.append(f"{option.name} = {written}".replace("%", "%%"))
    return words


def change_of(options: Mapping[str, str], table: Sequence[Option]) -> list[str]:
    """Return words that set exactly these options, also to their defaults; for a statement without parameters."""
    kinds = {option.name: option.kind for option in table}
    written = {name: _written(kinds[name], value) for name, value in options.items() if name in kinds}
    return [f"{name} = {value}" for name, value in written.items() if value is not None]


def _written(kind: ValueKind, value: str) -> str | None:
    """Return the value as SQL; ``None`` if it cannot be written: what comes from another machine is never pasted unread."""
    if kind is ValueKind.TEXT:
        return sql_text(value)
    if kind is ValueKind.LIST:
        return f"({value})" if re.fullmatch(r"[\d,]*", value) else None
    if kind is ValueKind.WORD:
        return "NULL" if not value else value if _WORD.fullmatch(value) else None
    return value if _NUMBER.fullmatch(value) else None


def name_of(suffix: str, options: Mapping[str, str]) -> str:
    """Return the name of an option without regard to its first word: ``DELAY`` is ``MASTER_DELAY`` or ``SOURCE_DELAY``."""
    return next((name for name in options if name in (f"MASTER_{suffix}", f"SOURCE_{suffix}")), "")


def value_of(suffix: str, options: Mapping[str, str]) -> str:
    return options.get(name_of(suffix, options), "")


# --- filters as statements ------------------------------------------------------------------------------------------


def same_filter(name: str, one: str, other: str) -> bool:
    """Compare values without regard to the order in which a server prints them: tables are in the order of its hash."""
    return one == other if name == "Replicate_Rewrite_DB" else sorted(one.split(",")) == sorted(other.split(","))


def mariadb_filters(channel: str, filters: Mapping[str, str], names: Sequence[str]) -> list[str]:
    """Return statements that set the filters ``names`` of a stopped connection; one without a value is emptied."""
    place = f"{sql_name(channel)}." if channel else ""
    return [f"SET GLOBAL {place}{name.lower()} = {sql_text(filters.get(name, ''))}" for name in names]


def mysql_filters(channel: str, filters: Mapping[str, str]) -> list[str]:
    """Return the statement that sets all filters of a stopped channel; a filter that is not named is emptied."""
    words = [f"{name.upper()} = ({_filter_list(name, filters.get(name, ''))})" for name in FILTERS]
    end = f" FOR CHANNEL {sql_text(channel)}" if channel else ""
    return [f"CHANGE REPLICATION FILTER {', '.join(words)}{end}"]


def _filter_list(name: str, value: str) -> str:
    if not value:
        return ""
    if name == "Replicate_Rewrite_DB":
        pairs = re.findall(r"\(([^,()]*),([^,()]*)\)", value)
        return ", ".join(f"({sql_name(old)}, {sql_name(new)})" for old, new in pairs)
    items = value.split(",")
    if "Wild" in name:
        return ", ".join(sql_text(item) for item in items)
    return ", ".join(".".join(sql_name(part) for part in item.split(".", 1)) for item in items)
