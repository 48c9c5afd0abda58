"""Convert ``SHOW GLOBAL VARIABLES`` and ``SHOW GLOBAL STATUS`` to the values of ``ServerFacts``."""

from collections.abc import Iterable, Mapping
from posixpath import isabs, join, normpath

from dbops.engine.facts.instance import PageWrites

Variables = Mapping[str, str]


def text_of(variables: Variables, *names: str) -> str:
    """Return the first non-empty value of ``names``, or ``""``."""
    return next((str(variables[name]) for name in names if variables.get(name) not in (None, "")), "")


def number_of(variables: Variables, *names: str) -> int:
    """Return the first number among ``names``, or 0. ``expire_logs_days`` has decimals on MariaDB."""
    for name in names:
        try:
            return int(float(variables[name]))
        except (KeyError, TypeError, ValueError):
            continue
    return 0


def truth_of(variables: Variables, *names: str) -> bool:
    return text_of(variables, *names).upper() in ("ON", "1", "YES", "TRUE")


def binlog_expire_seconds(variables: Variables) -> int:
    """Return the seconds until binary logs are purged, 0 for never. If both variables exist, the one in seconds wins when set."""
    seconds = number_of(variables, "binlog_expire_logs_seconds")
    if seconds:
        return seconds
    try:
        return round(float(variables.get("expire_logs_days") or 0) * 86400)
    except ValueError:
        return 0


#: Status variables of ``page_writes``.
PAGES, DOUBLEWRITTEN = "Innodb_pages_written", "Innodb_dblwr_pages_written"


def page_writes(variables: Variables, status: Variables) -> PageWrites:
    """Return how InnoDB writes pages. Before MySQL 8.0 an empty method is the default, ``fsync``."""
    method = "innodb_flush_method"
    return PageWrites(
        flush_method=text_of(variables, method) or ("fsync" if method in variables else ""),
        buffering=text_of(variables, "innodb_data_file_buffering"),
        use_atomic=text_of(variables, "innodb_use_atomic_writes"),
        pages=number_of(status, PAGES) if PAGES in status else None,
        doublewritten=number_of(status, DOUBLEWRITTEN) if DOUBLEWRITTEN in status else None,
    )


def external_paths(variables: Variables, names: Iterable[str]) -> tuple[str, ...]:
    """Return paths outside the data directory: a stream flattens them into the target, where the server looks elsewhere.

    ``names`` are variables with a directory; ``innodb_data_file_path`` is read as well (its entries may be absolute).
    """
    datadir = normpath(text_of(variables, "datadir") or "/")
    paths = [text_of(variables, name) for name in names]
    for entry in text_of(variables, "innodb_data_file_path").split(";"):
        paths.append(entry.split(":")[0])
    outside = []
    for path in filter(None, paths):
        place = normpath(path if isabs(path) else join(datadir, path))
        if place != datadir and not place.startswith(datadir.rstrip("/") + "/"):
            outside.append(place)
    return tuple(dict.fromkeys(outside))
