"""Check that the target's server can open and use the copied data as the source does."""

import re
from collections.abc import Iterator, Mapping

from dbops.engine.facts.instance import ConfigFacts
from dbops.engine.facts.stored_data import LoadedPlugin, StoredData, StoredFiles
from dbops.engine.phrases import joined, phrase
from dbops.engine.planning.checks.findings import ok, refusal, warning
from dbops.engine.planning.checks.layout import stored_of
from dbops.engine.planning.inputs import KnownInstance, PlanInputs
from dbops.engine.rebuilds.plan import Finding

ENCRYPTION_CODE, ENCRYPTION_TITLE = "pair.encryption", phrase("Encrypted data")
#: Options that load plugins at the start.
LOADS = ("plugin_load", "plugin_load_add", "early_plugin_load")
#: The encryption plugin whose keys the probe compares.
KEY_FILE = "file_key_management"
UNREADABLE = "unreadable"


def target_can_decrypt(inputs: PlanInputs) -> Iterator[Finding]:
    """Refuse a target without the source's keys: its tables would be unreadable, without an error during the rebuild."""
    stored = stored_of(inputs.source)
    if stored is None:
        return
    if not stored.is_encrypted:
        yield ok(ENCRYPTION_CODE, ENCRYPTION_TITLE, phrase("Nothing is encrypted."))
    elif inputs.flavor and inputs.flavor.name == "mysql":
        advice = (
            phrase("Use the clone method: it sends the keys over TLS.")
            if not inputs.flavor.clone_problem(inputs.flavor.version)
            else phrase("Use the dump method: the target’s server encrypts the rows itself.")
        )
        seen = phrase(
            "{encrypted}. The backup tool would need the source’s keyring on the target.", encrypted=_encrypted(stored)
        )
        yield refusal(ENCRYPTION_CODE, ENCRYPTION_TITLE, seen, advice)
    elif missing := _missing_plugin(inputs, stored):
        yield missing
    else:
        yield _keys(inputs, stored)


def target_can_encrypt(inputs: PlanInputs) -> Iterator[Finding]:
    """Refuse a target without an encryption plugin. Its own keys are enough: the data arrives decrypted."""
    stored = stored_of(inputs.source)
    if stored is None:
        return
    if not stored.is_encrypted:
        yield ok(ENCRYPTION_CODE, ENCRYPTION_TITLE, phrase("Nothing is encrypted."))
    elif missing := _missing_plugin(inputs, stored):
        yield missing
    else:
        yield ok(
            ENCRYPTION_CODE,
            ENCRYPTION_TITLE,
            phrase("{encrypted}. The target loads an encryption plugin.", encrypted=_encrypted(stored)),
        )


def _missing_plugin(inputs: PlanInputs, stored: StoredData) -> Finding | None:
    target, config, files = inputs.target, _config(inputs.target), _files(inputs.target)
    plugins = [plugin for plugin in stored.plugins if plugin.kind in ("ENCRYPTION", "KEYRING")]
    if not plugins and any(name.startswith("component_keyring") for name in files.manifest):
        return None
    for plugin in plugins:
        if not is_loaded(config, plugin):
            seen = phrase(
                "{encrypted} with {plugin}; {defaults_file} does not load it.",
                encrypted=_encrypted(stored),
                plugin=plugin.name,
                defaults_file=target.defaults_file,
            )
            option = "early_plugin_load" if plugin.kind == "KEYRING" else "plugin_load_add"
            advice = phrase("Add {option} = {library} and its settings there.", option=option, library=plugin.library)
            return refusal(ENCRYPTION_CODE, ENCRYPTION_TITLE, seen, advice)
        if files.libraries is not None and plugin.library not in files.libraries:
            seen = phrase("{library} is missing on {host}.", library=plugin.library, host=target.host)
            return refusal(ENCRYPTION_CODE, ENCRYPTION_TITLE, seen, phrase("Install the plugin on that host."))
    if not plugins:
        seen = phrase(
            "{encrypted}; {target} has no keyring component.", encrypted=_encrypted(stored), target=target.name
        )
        return refusal(
            ENCRYPTION_CODE, ENCRYPTION_TITLE, seen, phrase("Configure the same keyring component on the target.")
        )
    return None


def _keys(inputs: PlanInputs, stored: StoredData) -> Finding:
    """Compare the keys of MariaDB's plugins, as far as they are in a file."""
    said, target = _encrypted(stored), inputs.target
    have, want = _files(target).keys, _files(inputs.source).keys
    ciphers = [_option(member, f"{KEY_FILE}_encryption_algorithm", "aes_cbc") for member in (inputs.source, target)]
    if not any(plugin.name == KEY_FILE for plugin in stored.plugins):
        names = ", ".join(plugin.name for plugin in stored.plugins if plugin.kind == "ENCRYPTION")
        return warning(
            ENCRYPTION_CODE,
            ENCRYPTION_TITLE,
            phrase("{said} with {names}. dbops cannot compare its keys.", said=said, names=names),
            phrase("Check that the target's server reads the same keys."),
        )
    if have in ("", UNREADABLE):
        advice = phrase(
            "Set {key_file}_filename in {defaults_file} to a copy of the source's key file.",
            key_file=KEY_FILE,
            defaults_file=target.defaults_file,
        )
        return refusal(
            ENCRYPTION_CODE,
            ENCRYPTION_TITLE,
            phrase("{said}; {target} has no readable key file.", said=said, target=target.name),
            advice,
        )
    if ciphers[0] != ciphers[1]:
        advice = phrase(
            "Set {key_file}_encryption_algorithm = {ciphers} on the target.", key_file=KEY_FILE, ciphers=ciphers[0]
        )
        return refusal(
            ENCRYPTION_CODE,
            ENCRYPTION_TITLE,
            phrase("Source {ciphers}, target {ciphers_2}.", ciphers=ciphers[0], ciphers_2=ciphers[1]),
            advice,
        )
    if moved := _moved(inputs):
        advice = phrase("Use the same path on both: prepare reads the keys by the source's path.")
        return refusal(ENCRYPTION_CODE, ENCRYPTION_TITLE, moved, advice)
    if want == have:
        return ok(ENCRYPTION_CODE, ENCRYPTION_TITLE, phrase("{said}; both hosts have the same keys.", said=said))
    if want in ("", UNREADABLE) or "sealed:" in want + have:
        return warning(
            ENCRYPTION_CODE,
            ENCRYPTION_TITLE,
            phrase("{said}; the key files could not be compared.", said=said),
            phrase("Check that both have the same keys."),
        )
    advice = phrase("Copy the source's key file to {host}, and restart the target's server.", host=target.host)
    return refusal(
        ENCRYPTION_CODE, ENCRYPTION_TITLE, phrase("{said}; the target's key file has other keys.", said=said), advice
    )


def _moved(inputs: PlanInputs) -> str:
    """Return which path differs: the backup tool writes the source's into its files, and reads them when it prepares."""
    name = f"{KEY_FILE}_filename"
    files = [_option(member, name) for member in (inputs.source, inputs.target)]
    places = [
        stored.plugin_dir.rstrip("/") if (stored := stored_of(member)) else ""
        for member in (inputs.source, inputs.target)
    ]
    for what, (source, target) in ((name, files), ("plugin_dir", places)):
        if source and target and source != target:
            return phrase("{setting}: source {want}, target {have}.", setting=what, want=source, have=target)
    return ""


def _encrypted(stored: StoredData) -> str:
    spaces = (
        [phrase("{encrypted_spaces} tablespaces", encrypted_spaces=stored.encrypted_spaces)]
        if stored.encrypted_spaces
        else []
    )
    return phrase("Encrypted: {names}", names=joined([*spaces, *stored.encrypted_logs], ", "))


def is_loaded(config: ConfigFacts | None, plugin: LoadedPlugin) -> bool:
    """Return whether the option file loads a plugin: ``name=library.so``, ``library.so`` or ``library``."""
    words = {
        _stem(part.strip())
        for name in LOADS
        for item in (config.options.get(name, "") if config else "").split(";")
        for part in item.split("=")
    }
    return bool({_stem(plugin.library), plugin.name} & words)


def memory_tables_are_known(inputs: PlanInputs) -> Iterator[Finding]:
    """Warn of MEMORY tables: a physical copy has their definition alone, and the primary's next change of a row finds none."""
    code, title, server = "source.memory_tables", phrase("MEMORY tables of the source"), inputs.source.server
    if server is None:
        return
    if count := server.foreign_engines.get("MEMORY", 0):
        seen = phrase(
            "{count} MEMORY tables arrive empty. Replication stops when the primary changes a row that the copy lacks.",
            count=count,
        )
        advice = phrase(
            "Convert them to InnoDB, or empty them on the primary right after the rebuild (TRUNCATE TABLE, or "
            "DELETE in its init_file) and fill them again there."
        )
        yield warning(code, title, seen, advice)
    else:
        yield ok(code, title, phrase("No MEMORY tables."))


def settings_fit(inputs: PlanInputs) -> Iterator[Finding]:
    """Compare start-up settings that the data depends on with the target's option file, else with its running server."""
    code, title, stored = (
        "pair.settings",
        phrase("Data file settings of source and target"),
        stored_of(inputs.source),
    )
    if stored is None:
        return
    wrong = [
        found for check in (_data_file_path, _undo, _checksum, _aria_block) if (found := check(inputs, stored.settings))
    ]
    for setting, want, have in wrong:
        advice = phrase(
            "Set {setting} = {want} in {defaults_file}.",
            setting=setting,
            want=want,
            defaults_file=inputs.target.defaults_file,
        )
        yield refusal(
            code,
            title,
            phrase("{setting}: source {want}, target {have}.", setting=setting, want=want, have=have),
            advice,
        )
    if not wrong:
        yield ok(code, title, ", ".join(f"{name} = {value}" for name, value in sorted(stored.settings.items())))


Difference = tuple[str, str, str] | None


def _data_file_path(inputs: PlanInputs, settings: Mapping[str, str]) -> Difference:
    want = settings.get("innodb_data_file_path", "")
    have = _setting(inputs, "innodb_data_file_path") or "ibdata1:12M:autoextend"
    return ("innodb_data_file_path", want, have) if want and _files_in(want) != _files_in(have) else None


def _files_in(path: str) -> list[list[str]]:
    """Return the words of each file, sizes in bytes."""
    return [[_bytes(word) for word in entry.lower().split(":")] for entry in path.replace(" ", "").split(";")]


def _bytes(word: str) -> str:
    found = re.fullmatch(r"(\d+)([kmg])", word)
    return str(int(found[1]) * 1024 ** (" kmg".index(found[2]))) if found else word


def _undo(inputs: PlanInputs, settings: Mapping[str, str]) -> Difference:
    """MySQL 8.0 and MariaDB 10.11 open the undo tablespaces that exist; older servers refuse to start."""
    flavor, want = inputs.flavor, settings.get("innodb_undo_tablespaces", "")
    if flavor is None or flavor.version >= ((8, 0, 0) if flavor.name == "mysql" else (10, 11, 0)):
        return None
    have = _setting(inputs, "innodb_undo_tablespaces") or "0"
    return ("innodb_undo_tablespaces", want, have) if want and want != have else None


def _checksum(inputs: PlanInputs, settings: Mapping[str, str]) -> Difference:
    """A strict algorithm refuses pages of another one; the others read all."""
    want, have = settings.get("innodb_checksum_algorithm", ""), _setting(inputs, "innodb_checksum_algorithm")
    strict = have.startswith("strict_")
    return ("innodb_checksum_algorithm", want, have) if want and strict and want != have else None


def _aria_block(inputs: PlanInputs, settings: Mapping[str, str]) -> Difference:
    want, have = settings.get("aria_block_size", ""), _setting(inputs, "aria_block_size") or "8192"
    return ("aria_block_size", want, have) if want and _bytes(have.lower()) != want else None


def _setting(inputs: PlanInputs, name: str) -> str:
    """Return the target's setting: the file decides at the next start; the server shows defaults and its command line."""
    stored = stored_of(inputs.target)
    return _option(inputs.target, name) or (stored.settings.get(name, "") if stored else "")


def plugins_are_there(inputs: PlanInputs) -> Iterator[Finding]:
    """Refuse a target without the plugins of copied tables and accounts: they could not be opened or used to log in."""
    code, title, stored = (
        "pair.plugins",
        phrase("Plugins of the target"),
        stored_of(inputs.source),
    )
    server = inputs.source.server
    if stored is None or server is None:
        return
    needed = [plugin for plugin in stored.plugins if _is_needed(plugin, stored, server.foreign_engines)]
    target, files, config = inputs.target, _files(inputs.target), _config(inputs.target)
    absent = [item.library for item in needed if files.libraries is not None and item.library not in files.libraries]
    unloaded = [item.name for item in needed if item.is_installed is False and not is_loaded(config, item)]
    if absent:
        yield refusal(
            code,
            title,
            phrase("Missing on {host}: {absent}.", host=target.host, absent=", ".join(absent)),
            phrase("Install them on that host."),
        )
    elif unloaded:
        seen = phrase(
            "{defaults_file} does not load {unloaded}.",
            defaults_file=target.defaults_file,
            unloaded=", ".join(unloaded),
        )
        yield refusal(code, title, seen, phrase("Add plugin_load_add lines for them there."))
    else:
        yield ok(code, title, ", ".join(plugin.name for plugin in needed) or phrase("No plugin is needed."))


def _is_needed(plugin: LoadedPlugin, stored: StoredData, engines: Mapping[str, int]) -> bool:
    name = plugin.name.lower()
    if plugin.kind == "AUTHENTICATION":
        return stored.account_plugins is None or name in stored.account_plugins
    engine = plugin.kind == "STORAGE ENGINE" and name in {item.lower() for item in engines}
    return engine or name.startswith("provider_")


def time_zones_are_loaded(inputs: PlanInputs) -> Iterator[Finding]:
    """Warn of empty time zone tables if another server of the cluster has them, or a named zone is in use."""
    code, title, stored = "source.time_zones", phrase("Time zone tables of the source"), stored_of(inputs.source)
    if stored is None or stored.has_time_zones is None:
        return
    others = [stored_of(member) for member in (inputs.primary, inputs.target) if member]
    used = any(other and other.has_time_zones for other in others) or re.match(r"[A-Za-z]+/", stored.time_zone)
    if not stored.has_time_zones and used:
        advice = phrase(
            "Load them on the primary (mariadb-tzinfo-to-sql, mysql_tzinfo_to_sql), so that they replicate."
        )
        seen = phrase(
            "mysql.time_zone_name is empty. Statements with named time zones fail or return NULL on the copy."
        )
        yield warning(code, title, seen, advice)
    else:
        yield ok(code, title, phrase("Loaded.") if stored.has_time_zones else phrase("Empty, and not used."))


def _stem(library: str) -> str:
    return library.removesuffix(".so")


def _config(member: KnownInstance) -> ConfigFacts | None:
    return member.facts.config if member.facts else None


def _option(member: KnownInstance, name: str, default: str = "") -> str:
    config = _config(member)
    return config.options.get(name, default) if config else default


def _files(member: KnownInstance) -> StoredFiles:
    found = member.facts.datadir.stored if member.facts and member.facts.datadir else None
    return found or StoredFiles()


#: For a copy of the source's files by a backup tool.
CHECKS = (
    target_can_decrypt,
    memory_tables_are_known,
    settings_fit,
    plugins_are_there,
    time_zones_are_loaded,
)
#: For a clone, whose server sends the keys.
OF_A_CLONE = (target_can_encrypt, settings_fit, plugins_are_there, time_zones_are_loaded)
#: For a dump, whose rows are loaded by the target's server.
OF_A_DUMP = (target_can_encrypt, plugins_are_there, time_zones_are_loaded)
