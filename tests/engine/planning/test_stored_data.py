"""What a source or target must not have without a word: layout, keys, settings and plugins of the data."""

from dataclasses import replace
from typing import Any

import pytest

from dbops.engine.facts.stored_data import FileLink, LoadedPlugin, StoredData, StoredFiles
from dbops.engine.planning.inputs import KnownInstance, PlanInputs
from dbops.engine.states import Severity
from tests.engine.builders import datadir, facts, inputs, link, member, primary_server, server, source_with, target_with
from tests.engine.by_name import build_plan, run_checks

OK, WARNING, REFUSAL = Severity.OK, Severity.WARNING, Severity.REFUSAL
STORED = server(12).stored or StoredData()
FILTER = {"Replicate_Wild_Ignore_Table": "staging.%"}
KEYS = LoadedPlugin("file_key_management", "file_key_management.so", "ENCRYPTION", False)
ENCRYPTED = replace(STORED, encrypted_spaces=3, plugins=(KEYS,))
ED25519 = LoadedPlugin("ed25519", "auth_ed25519.so", "AUTHENTICATION", False)


def instance(
    number: int = 13, *, stored: dict[str, Any] | None = None, options: dict[str, str] | None = None, **values: Any
) -> KnownInstance:
    """Return source (12) or target (13): files as the host shows them, options of its file, and its server's facts."""
    files = replace(StoredFiles(links=()), **(stored or {}))
    found = facts(number, server=server(number, **values), datadir=datadir(number, stored=files))
    config = found.config and replace(found.config, options=options or {})
    name, role = ("backup-1", "backup") if number == 12 else ("replica-1", "replica")
    return member(name, role, number, facts=replace(found, config=config))


def pair(source: dict[str, Any], target: dict[str, Any]) -> PlanInputs:
    return inputs(source=instance(12, **source), target=instance(13, **target))


def severity(of: PlanInputs, code: str, method: str = "xbstream") -> Severity:
    found = {finding.severity for finding in run_checks(of, method) if finding.code == code}
    assert len(found) == 1, f"{code}: {found}"
    return found.pop()


LOADS = {"plugin_load_add": "auth_pam;file_key_management.so"}
LINKS: dict[str, Any] = {"links": (FileLink("d", "shop", "/disk2/shop"),)}


@pytest.mark.parametrize(
    ("code", "expected", "of"),
    [
        ("source.filters", REFUSAL, inputs(source=source_with(replication=(link(filters=FILTER),)))),
        (
            "source.filters",
            WARNING,
            inputs(
                source=source_with(replication=(link(filters=FILTER),)),
                target=target_with(replication=(link(filters=FILTER),)),
            ),
        ),
        (
            "source.filters",
            REFUSAL,
            inputs(
                source=source_with(replication=(link(filters=FILTER),)),
                target=target_with(replication=(link(filters={"Replicate_Do_DB": "shop"}),)),
            ),
        ),
        (
            "source.binlog_filters",
            REFUSAL,
            inputs(source=source_with(stored=replace(STORED, binlog_filters={"binlog_ignore_db": "tmp"}))),
        ),
        (
            "source.outside_files",
            REFUSAL,
            inputs(source=source_with(stored=replace(STORED, outside_files=("/d/a.ibd",)))),
        ),
        ("source.outside_files", REFUSAL, inputs(source=source_with(stored=None))),
        ("source.outside_files", REFUSAL, pair({"stored": {"links": (FileLink("i", "shop/a.isl"),)}}, {})),
        ("source.outside_files", REFUSAL, pair({"stored": {"links": (FileLink("f", "shop/a.MYD", "/d/a.MYD"),)}}, {})),
        ("source.outside_files", REFUSAL, pair({"stored": {"links": (FileLink("d", "#innodb_redo", "/d/redo"),)}}, {})),
        ("source.outside_files", REFUSAL, pair({"stored": {"links": None}}, {})),
        ("source.outside_files", OK, pair({"stored": {"links": (FileLink("f", "server-cert.pem", "/etc/x"),)}}, {})),
        ("source.schema_links", WARNING, pair({"stored": LINKS}, {})),
        ("source.outside_files", OK, pair({"stored": LINKS}, {})),
        ("target.schema_links", WARNING, pair({}, {"stored": LINKS})),
        ("target.outside_files", WARNING, pair({}, {"stored": {"links": (FileLink("i", "shop/a.isl"),)}})),
        ("target.chained", OK, inputs(target=target_with(replication=(link("proxy", source_server_id=11),)))),
        ("target.chained", OK, inputs(target=target_with(replication=(link("10.0.0.12", source_server_id=12),)))),
        ("target.chained", WARNING, inputs(target=target_with(replication=(link("10.9.9.9"),)))),
        ("source.memory_tables", WARNING, inputs(source=source_with(foreign_engines={"MEMORY": 1}))),
        ("source.engines", OK, inputs(source=source_with(foreign_engines={"MEMORY": 1}))),
        (
            "source.time_zones",
            WARNING,
            inputs(source=source_with(stored=replace(STORED, has_time_zones=False))),
        ),
        (
            "source.time_zones",
            OK,
            inputs(
                source=source_with(stored=replace(STORED, has_time_zones=False)),
                target=target_with(stored=None),
                primary=member("primary-1", "primary", 11, facts=facts(11, server=primary_server(stored=None))),
            ),
        ),
    ],
)
def test_layout_of_the_data_is_checked(code: str, expected: Severity, of: PlanInputs) -> None:
    assert severity(of, code) is expected


@pytest.mark.parametrize("method", ["xbstream", "archive", "dump", "clone"])
def test_filters_are_refused_by_every_method(method: str) -> None:
    assert (
        severity(inputs(source=source_with(replication=(link(filters=FILTER),))), "source.filters", method) is REFUSAL
    )


def encrypted(keys: str, target: str, options: dict[str, str] | None = None, **files: Any) -> PlanInputs:
    return inputs(
        source=replace(
            instance(12, stored={"keys": keys}),
            facts=facts(
                12, server=server(12, stored=ENCRYPTED), datadir=datadir(12, stored=StoredFiles(links=(), keys=keys))
            ),
        ),
        target=instance(13, stored={"keys": target, **files}, options=LOADS if options is None else options),
    )


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (inputs(), OK),
        (encrypted("a", "a"), OK),
        (encrypted("a", "b"), REFUSAL),
        (encrypted("a", "a", {}), REFUSAL),
        (encrypted("a", ""), REFUSAL),
        (encrypted("a", "unreadable"), REFUSAL),
        (encrypted("unreadable", "a"), WARNING),
        (encrypted("sealed:a", "sealed:b"), WARNING),
        (encrypted("sealed:a", "sealed:a"), OK),
        (encrypted("a", "a", libraries=("auth_pam.so",)), REFUSAL),
        (encrypted("a", "a", {**LOADS, "file_key_management_encryption_algorithm": "aes_ctr"}), REFUSAL),
    ],
)
def test_encrypted_data_needs_the_same_keys(of: PlanInputs, expected: Severity) -> None:
    assert severity(of, "pair.encryption") is expected


def test_dump_of_encrypted_data_needs_a_plugin_and_no_equal_keys() -> None:
    assert severity(encrypted("a", "b"), "pair.encryption", "dump") is OK
    assert severity(encrypted("a", "a", {}), "pair.encryption", "dump") is REFUSAL


@pytest.mark.parametrize(
    ("settings", "options", "expected"),
    [
        ({"innodb_data_file_path": "ibdata1:12M:autoextend"}, {}, OK),
        ({"innodb_data_file_path": "ibdata1:1G;ibdata2:12M:autoextend"}, {}, REFUSAL),
        ({"innodb_data_file_path": "ibdata1:1024M"}, {"innodb_data_file_path": "ibdata1:1g"}, OK),
        ({"innodb_data_file_path": "ibdata1:12M:autoextend"}, {"innodb_data_file_path": "x:12M:autoextend"}, REFUSAL),
        ({"innodb_checksum_algorithm": "crc32"}, {"innodb_checksum_algorithm": "strict_full_crc32"}, REFUSAL),
        ({"innodb_checksum_algorithm": "crc32"}, {"innodb_checksum_algorithm": "full_crc32"}, OK),
        ({"aria_block_size": "16384"}, {}, REFUSAL),
        ({"innodb_undo_tablespaces": "2"}, {"innodb_undo_tablespaces": "3"}, OK),
    ],
)
def test_settings_of_data_files_are_compared(
    settings: dict[str, str], options: dict[str, str], expected: Severity
) -> None:
    source = source_with(stored=replace(STORED, settings=settings))
    assert severity(inputs(source=source, target=instance(13, options=options)), "pair.settings") is expected


def test_undo_tablespaces_of_an_older_server_must_be_equal() -> None:
    old = source_with(version="10.6.20", stored=replace(STORED, settings={"innodb_undo_tablespaces": "2"}))
    assert severity(inputs(source=old), "pair.settings") is REFUSAL


@pytest.mark.parametrize(
    ("plugin", "target", "expected"),
    [
        (ED25519, {}, REFUSAL),
        (ED25519, {"options": {"plugin_load": "auth_ed25519"}}, OK),
        (replace(ED25519, is_installed=True), {}, OK),
        (replace(ED25519, is_installed=True), {"stored": {"libraries": ("auth_pam.so",)}}, REFUSAL),
        (LoadedPlugin("SPIDER", "ha_spider.so", "STORAGE ENGINE", False), {}, REFUSAL),
        (LoadedPlugin("CONNECT", "ha_connect.so", "STORAGE ENGINE", False), {}, OK),
        (LoadedPlugin("provider_lz4", "provider_lz4.so", "DAEMON", False), {}, REFUSAL),
    ],
)
def test_plugins_of_tables_and_accounts_are_needed(
    plugin: LoadedPlugin, target: dict[str, Any], expected: Severity
) -> None:
    stored = replace(STORED, plugins=(plugin,), account_plugins=("ed25519",))
    source = source_with(stored=stored, foreign_engines={"SPIDER": 2})
    assert severity(inputs(source=source, target=instance(13, **target)), "pair.plugins") is expected


def test_copy_of_a_source_that_logs_only_its_own_writes_follows_the_primary() -> None:
    of = inputs(source=source_with(log_replica_updates=False))
    assert severity(of, "source.binlog") is OK
    plan = build_plan(of)
    assert plan.follows_primary
    change = [command.text for step in plan.steps for command in step.commands if "MASTER_HOST" in command.text]
    assert change
    assert all("10.0.0.11" in text for text in change), "the primary"
    assert not build_plan(inputs()).follows_primary
