"""The part of a probe that describes the data itself: statements to the server, and records of ``remote/probe.sh``."""

from collections.abc import Mapping
from posixpath import isabs, join, normpath
from typing import Any

from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.facts.stored_data import FileLink, LoadedPlugin, StoredData, StoredFiles
from dbops.engine.flavors import stored_data
from dbops.engine.flavors.base import Flavor
from dbops.engine.flavors.variables import text_of, truth_of
from dbops.engine.ports import Database


def read_stored(database: Database, flavor: Flavor, datadir: str) -> StoredData:
    """Return the server's facts of its data.

    Raises:
        Unreachable, RemoteFailure: see ``Database.query``. Tables of ``mysql`` that the account cannot read become ``None``.
    """
    names = stored_data.variables()
    places = ", ".join(["%s"] * len(names))
    rows = database.query(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({places})", names)
    found = {str(row["Variable_name"]).lower(): str(row["Value"]) for row in rows}
    paths = [str(row["path"]) for row in database.query(stored_data.outside_files(flavor))]
    spaces = database.query(stored_data.encrypted_spaces(flavor))
    installed = _column(database, stored_data.INSTALLED_PLUGINS, "name")
    zones = _column(database, stored_data.TIME_ZONES, "found")
    components = _column(database, stored_data.COMPONENTS, "urn") if flavor.name == "mysql" else ()
    plugins = _column(database, stored_data.ACCOUNT_PLUGINS, "plugin")
    return StoredData(
        outside_files=outside(paths, datadir)[: stored_data.MAX_NAMES],
        encrypted_spaces=int(spaces[0]["spaces"]),
        encrypted_logs=tuple(sorted({what for name, what in stored_data.ENCRYPTS.items() if truth_of(found, name)})),
        plugins=tuple(_plugin(row, installed) for row in database.query(stored_data.LOADED_PLUGINS)),
        account_plugins=plugins and tuple(sorted({name.lower() for name in plugins})),
        components=tuple(urn.removeprefix("file://") for urn in components or ()),
        settings={name: found[name] for name in stored_data.SETTINGS if name in found},
        has_time_zones=zones[0] == "1" if zones else None,
        time_zone=text_of(found, "time_zone"),
        plugin_dir=text_of(found, "plugin_dir"),
        binlog_filters=_binlog_filters(database, flavor),
    )


def outside(paths: list[str], datadir: str) -> tuple[str, ...]:
    """Return the paths outside a data directory, absolute and without duplicates."""
    inside = normpath(datadir).rstrip("/") + "/"
    places = (normpath(path if isabs(path) else join(datadir, path)) for path in paths)
    return tuple(dict.fromkeys(place for place in places if not place.startswith(inside)))


def _plugin(row: Mapping[str, Any], installed: tuple[str, ...] | None) -> LoadedPlugin:
    name = str(row["name"])
    known = None if installed is None else name.lower() in {item.lower() for item in installed}
    return LoadedPlugin(name, str(row["library"]), str(row["kind"]), known)


def _column(database: Database, sql: str, column: str) -> tuple[str, ...] | None:
    """Return a column as text, ``None`` if the account may not read it."""
    try:
        return tuple(str(row[column]) for row in database.query(sql))
    except Unreachable:
        raise
    except RemoteFailure:
        return None


def _binlog_filters(database: Database, flavor: Flavor) -> dict[str, str]:
    try:
        rows = database.query(flavor.show_binlog_position)
    except Unreachable:
        raise
    except RemoteFailure:
        return {}
    lower = {str(name).lower(): str(value or "") for name, value in (rows[0] if rows else {}).items()}
    return {name: lower[name] for name in ("binlog_do_db", "binlog_ignore_db") if lower.get(name)}


def parse_files(records: Mapping[str, str]) -> StoredFiles | None:
    """Return what the script found, ``None`` if it was not asked."""
    if "stored.links" not in records:
        return None
    lines = records["stored.links"].splitlines()
    links = [
        FileLink(kind, *rest.partition("\t")[::2]) for kind, _, rest in (line.partition(" ") for line in lines) if rest
    ]
    found = records.get("stored.libraries")
    return StoredFiles(
        # a list that was cut is still one of links
        links=tuple(links) if "complete" in lines or links else None,
        keys=records.get("stored.keys", ""),
        manifest=tuple(sorted(set(records.get("stored.manifest", "").split()))),
        libraries=tuple(found.split()) if found is not None else None,
    )
