"""Rules of the inventory's values, in addition to the models' validators, for browser and file.

These values are used in shell scripts, option files and SQL on database hosts. All of them quote; refusing unusual
characters here is a second line of defense.
"""

import difflib
import os
import posixpath
import re
import ssl
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db.models import Model

from dbops.engine.access.approval_rules import MOST_APPROVALS
from dbops.engine.access.tickets import pattern_problem, url_problem
from dbops.engine.phrases import joined, phrase
from dbops.engine.states import BackupMethod, Role, RunBy
from dbops.fleetfile import sshkeys
from dbops.lib.cron import BadSchedule, next_due
from dbops.models import Cluster, Host, Instance
from dbops.models.fleet import PASSWORDS, address_validator

SECRETS: dict[type[Model], tuple[str, ...]] = {
    Host: ("ssh_private_key",),
    Cluster: PASSWORDS,
    Instance: PASSWORDS,
}
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
LOGIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*\$?")
ACCOUNT = re.compile(r"[^\s'\"`;\\](?:[^'\"`;\\]*[^\s'\"`;\\])?")
SUFFIX = re.compile(r"[A-Za-z0-9_.@-]+")
UNIT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9:_.@\\-]*")
KEY_FILE_LIMIT_BYTES = 64 * 1024
#: Fields whose values have several lines.
OF_LINES = ("ssh_private_key", "host_key", "tls_ca")
#: Fields of a cluster that only its admins change: who must agree to a rebuild.
CLUSTER_RULES = ("needs_approval", "approval_count", "approvers_only", "ticket_pattern", "ticket_url")
LONGEST_GOAL_SECONDS = 30 * 86400
# A rebuild moves the data directory aside, so these must never be one.
SYSTEM_NAMES = ["", "bin", "boot", "dev", "etc", "home", "lib", "lib64", "media", "mnt", "opt", "proc", "root", "run"]
SYSTEM_NAMES += ["sbin", "srv", "sys", "tmp", "usr", "usr/bin", "usr/lib", "usr/local", "usr/sbin", "usr/share"]
SYSTEM_NAMES += ["var", "var/cache", "var/lib", "var/log", "var/run", "var/spool", "var/tmp"]
SYSTEM_DIRECTORIES = frozenset(f"/{name}" for name in SYSTEM_NAMES)
KERNEL_TREES = ("/proc/", "/sys/", "/dev/", "/boot/")


def field_problem(model: type[Model], field: str, value: Any) -> str:
    """Return the problems of a value by the model's validators and the rules here; empty if valid."""
    try:
        model._meta.get_field(field).clean(value, None)  # type: ignore[union-attr]
    except ValidationError as error:
        return own_problem(field, value) or " ".join(error.messages)
    return own_problem(field, value)


def own_problem(field: str, value: Any) -> str:
    """Return the problems of a value by the rules here; empty if valid."""
    if value in ("", None):
        return ""
    if isinstance(value, str) and field not in OF_LINES and (found := CONTROL.search(value)):
        if found[0] in "\n\r\u2028\u2029":
            return phrase("line breaks are not allowed here")
        return phrase("control characters are not allowed here")
    rule = RULES.get(field)
    return rule(value) if rule else ""


def _port(value: int) -> str:
    return "" if 1 <= value <= 65535 else phrase("a port must be a number from 1 to 65535")


def _address(value: str) -> str:
    """Refuse an address that starts with a dash, because programs would read it as an option."""
    return phrase("an address must not start with a dash") if value.startswith("-") else ""


def _one_of(what: str, known: Iterable[str]) -> Callable[[str], str]:
    """Return a rule that accepts only these words."""
    words = [str(item) for item in known]

    def rule(value: str) -> str:
        if value in words:
            return ""
        near = difflib.get_close_matches(value, words, n=1)
        if near:
            return phrase("{value} is {what}: did you mean {near}?", value=repr(value), what=what, near=repr(near[0]))
        return phrase("{value} is {what}: use one of {words}", value=repr(value), what=what, words=", ".join(words))

    return rule


def _between(least: int, most: int, unit: str) -> Callable[[int], str]:
    problem = phrase("use a number from {least} to {most} ({unit})", least=least, most=most, unit=unit)
    return lambda value: "" if least <= value <= most else problem


def _goal(value: int) -> str:
    """Accept only whole minutes: the form does not show seconds and would drop them."""
    return _between(60, LONGEST_GOAL_SECONDS, phrase("seconds"))(value) or (
        phrase("use whole minutes") if value % 60 else ""
    )


def _keep_count(value: int) -> str:
    problem = _between(1, 10_000, phrase("backups"))(value)
    return phrase("{problem}, or leave this empty for no limit", problem=problem) if problem else ""


def _cron(value: str) -> str:
    return _schedule_problem(value, "UTC")


def _time_zone(value: str) -> str:
    return _schedule_problem("0 0 * * *", value)


def _schedule_problem(cron: str, time_zone: str) -> str:
    try:
        next_due(cron, time_zone, datetime(2026, 1, 1, tzinfo=UTC))
    except BadSchedule as error:
        return error.problem
    return ""


def _suffix(value: str) -> str:
    return (
        "" if SUFFIX.fullmatch(value) else phrase("use letters, digits, dot, dash, underscore and @ in a group suffix")
    )


def _login(value: str) -> str:
    return "" if LOGIN.fullmatch(value) else phrase("use letters, digits, dot, dash, underscore and @ in a login name")


def _account(value: str) -> str:
    return (
        ""
        if ACCOUNT.fullmatch(value)
        else phrase("quotes, semicolons, backslashes and outer spaces are not allowed in an account")
    )


def _authority(value: str) -> str:
    if len(value) > KEY_FILE_LIMIT_BYTES or not value.isascii():
        return phrase("use certificates as PEM, with at most {most} characters", most=KEY_FILE_LIMIT_BYTES)
    try:
        ssl.create_default_context(cadata=value)
    except (ssl.SSLError, ValueError):
        return phrase("this is no certificate as PEM")
    return ""


def _unit(value: str) -> str:
    return (
        ""
        if UNIT.fullmatch(value)
        else phrase("this is not a systemd unit name (for example mariadb or mysql@3307.service)")
    )


def _path(value: str) -> str:
    if not value.startswith("/"):
        return phrase("use an absolute path")
    normal = posixpath.normpath(value).replace("//", "/", 1)
    return "" if normal == value else phrase("write the path as {path}", path=normal)


def _own_directory(value: str) -> str:
    if value in SYSTEM_DIRECTORIES or value.startswith(KERNEL_TREES):
        return phrase("{path} is a system directory: use a separate directory", path=value)
    return _path(value)


def _key_file(value: str) -> str:
    if problem := _path(value):
        return problem
    path = Path(value)
    try:
        if not path.is_file():
            return phrase("{path} is not a file on the dashboard's machine", path=value)
        if not os.access(path, os.R_OK):
            return phrase("the dashboard cannot read {path}", path=value)
        if path.stat().st_size > KEY_FILE_LIMIT_BYTES:
            return phrase("{path} is too large to be a private key", path=value)
        problem = sshkeys.private_key_problem(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        found = getattr(error, "strerror", None) or phrase("it is not text")
        return phrase("{path} cannot be read: {problem}", path=value, problem=found)
    return phrase("{file}: {problem}", file=value, problem=problem) if problem else ""


def key_file_outside(value: str) -> str:
    """Return the problem of a key file that was named in the browser and is not in ``KEY_DIRECTORY``; empty if it is.

    The answer does not depend on what the file is: it would tell which files the dashboard's machine has.
    """
    path, directory = Path(os.path.realpath(value)), Path(os.path.realpath(settings.KEY_DIRECTORY))
    if directory in path.parents:
        return ""
    return phrase(
        "in the browser, name a file in {directory}; `manage.py fleet import` may name any",
        directory=settings.KEY_DIRECTORY,
    )


def write_address_problem(value: str) -> str:
    """Return the problems of ``address`` or ``address:port``, where applications write."""
    head, colon, port = value.rpartition(":")
    address = head if colon and ("]" in head or ":" not in head) and not value.endswith("]") else value
    if address != value and not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
        return phrase("{value}: use address or address:port", value=repr(value))
    try:
        address_validator(address)
    except ValidationError:
        return phrase("{value} is not an address: use address or address:port", value=repr(value))
    return ""


def _write_addresses(value: Any) -> str:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return phrase("use a list of addresses")
    return joined(filter(None, [*map(write_address_problem, value), repeated_address_problem(value)]), "; ")


def repeated_address_problem(values: list[str]) -> str:
    """Return the problem of a list with a repeated address; empty if there is none."""
    return phrase("an address is repeated") if len(set(values)) < len(values) else ""


RULES: Mapping[str, Callable[[Any], str]] = {
    "role": _one_of(phrase("no role"), Role),
    "method": _one_of(phrase("not a backup method"), BackupMethod),
    "run_by": _one_of(phrase("not a way to run backups"), RunBy),
    "cron": _cron,
    "time_zone": _time_zone,
    "directory": _own_directory,
    "keep_count": _keep_count,
    "keep_days": _between(1, 3650, phrase("days")),
    "expected_seconds": _between(60, 7 * 86400, phrase("seconds")),
    "late_after_seconds": _between(60, 86400, phrase("seconds")),
    "ssh_address": _address,
    "stream_address": _address,
    "address": _address,
    "ssh_port": _port,
    "port": _port,
    "ssh_user": _login,
    "os_user": _login,
    "admin_user": _account,
    "local_user": _account,
    "replication_user": _account,
    "backup_user": _account,
    "load_user": _account,
    "tls_ca": _authority,
    "systemd_unit": _unit,
    "defaults_file": _path,
    "group_suffix": _suffix,
    "replication_tls": _one_of(phrase("not a TLS setting"), Instance.ReplicationTls.values),
    "replication_tls_ca": _path,
    "replication_delay_seconds": _between(0, 2**31 - 1, phrase("seconds")),
    "authorized_keys_file": _path,
    "datadir": _own_directory,
    "work_dir": _own_directory,
    "ssh_key_file": _key_file,
    "ssh_private_key": sshkeys.private_key_problem,
    "host_key": sshkeys.host_key_problem,
    "write_addresses": _write_addresses,
    "wanted_replicas": _between(0, 1000, phrase("replicas")),
    "redundancy_goal_seconds": _goal,
    "approval_count": _between(1, MOST_APPROVALS, phrase("approvals")),
    "ticket_pattern": pattern_problem,
    "ticket_url": url_problem,
}


def service_problem(values: Mapping[str, Any]) -> str:
    """Return the problems of an instance's start and stop settings; empty if valid."""
    unit, start, stop = (values.get(name) for name in ("systemd_unit", "start_command", "stop_command"))
    if unit and (start or stop):
        return phrase("set either a systemd unit, or start and stop commands, not both")
    if not unit and not (start and stop):
        return phrase("set a systemd unit, or both start and stop commands")
    return ""


def nested(one: str, other: str) -> bool:
    """Whether one directory contains the other."""
    return one.startswith(other + "/") or other.startswith(one + "/")
