"""Read settings in effect with their origin, versions, and heartbeats. Of a secret only its presence is shown."""

import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import celery
import django
from django.conf import settings
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from dbops import __version__
from dbops.database.config import sqlite_url
from dbops.engine.phrases import Phrase, phrase
from dbops.models import ProcessHeartbeat
from dbops.security.vault_settings import VARIABLES

ENVIRONMENT, DEFAULT, FROM_FILE = phrase("environment"), phrase("default"), phrase("file")
MASK = "***"
#: Parts of names of URL options that may contain a secret.
SECRET_PARTS = ("pass", "key", "secret", "token")


def _from_environment(name: str, default: str) -> str:
    return os.environ.get(name, default)


#: Each variable of docs/reference/configuration.md, in its order, with a function that shows its value. Secrets show none.
SETTINGS: dict[str, Callable[[], object]] = {
    "DBOPS_STATE_DIR": lambda: settings.STATE_DIR,
    "DBOPS_DATABASE_URL": lambda: without_password(os.environ.get("DBOPS_DATABASE_URL", "")) or _database_file(),
    "DBOPS_DATABASE_PASSWORD": lambda: _is_set(settings.DATABASES["default"]["PASSWORD"]),
    "DBOPS_DATABASE_PASSWORD_FILE": lambda: _file("DBOPS_DATABASE_PASSWORD_FILE", "database.password"),
    "DBOPS_DATABASE_WAIT_SECONDS": lambda: os.environ.get("DBOPS_DATABASE_WAIT_SECONDS", "20"),
    "DBOPS_REDIS_URL": lambda: without_password(settings.REDIS_URL),
    "DBOPS_REDIS_PASSWORD": lambda: _is_set(urlsplit(settings.REDIS_URL).password),
    "DBOPS_REDIS_PASSWORD_FILE": lambda: _file("DBOPS_REDIS_PASSWORD_FILE", "redis.password"),
    "DBOPS_SECRET_KEY": lambda: _is_set(settings.SECRET_KEY),
    "DBOPS_SECRET_KEY_FILE": lambda: _file("DBOPS_SECRET_KEY_FILE", "secret.key"),
    "DBOPS_ENCRYPTION_KEY": lambda: _is_set(settings.ENCRYPTION_KEYS),
    "DBOPS_ENCRYPTION_KEY_FILE": lambda: _file("DBOPS_ENCRYPTION_KEY_FILE", "encryption.key"),
    "DBOPS_KEY_DIRECTORY": lambda: settings.KEY_DIRECTORY,
    "DBOPS_ALLOWED_HOSTS": lambda: ", ".join(settings.ALLOWED_HOSTS),
    "DBOPS_TRUSTED_ORIGINS": lambda: ", ".join(settings.CSRF_TRUSTED_ORIGINS),
    "DBOPS_HTTPS": lambda: int(settings.SECURE_COOKIES),
    "DBOPS_URL_PREFIX": lambda: settings.URL_PREFIX,
    "DBOPS_SECOND_FACTOR_GROUPS": lambda: ", ".join(sorted(settings.SECOND_FACTOR_GROUPS)),
    "DBOPS_OIDC_ISSUER": lambda: settings.OIDC_ISSUER,
    "DBOPS_OIDC_CLIENT_ID": lambda: settings.OIDC_CLIENT_ID,
    "DBOPS_OIDC_CLIENT_SECRET": lambda: _is_set(settings.OIDC_CLIENT_SECRET),
    "DBOPS_OIDC_CLIENT_SECRET_FILE": lambda: _file("DBOPS_OIDC_CLIENT_SECRET_FILE", "oidc-client.secret"),
    "DBOPS_OIDC_NAME": lambda: settings.OIDC_NAME,
    "DBOPS_OIDC_SCOPES": lambda: ", ".join(settings.OIDC_SCOPES),
    "DBOPS_OIDC_NAME_CLAIM": lambda: settings.OIDC_NAME_CLAIM,
    "DBOPS_OIDC_GROUPS_CLAIM": lambda: settings.OIDC_GROUPS_CLAIM,
    "DBOPS_OIDC_GROUPS": lambda: ", ".join(f"{theirs}={ours}" for theirs, ours in settings.OIDC_GROUPS.items()),
    "DBOPS_RECOVERY_ACCOUNT": lambda: settings.RECOVERY_ACCOUNT,
    "DBOPS_SSH_HOST_CA_FILE": lambda: settings.SSH_HOST_CA_FILE,
    **{variable: partial(getattr, settings.VAULT, name) for name, variable in VARIABLES.items()},
    "DBOPS_DEBUG": lambda: int(settings.DEBUG),
    "DBOPS_LOG_FORMAT": lambda: settings.LOG_FORMAT,
    "DBOPS_TIME_ZONE": lambda: settings.TIME_ZONE,
    "DBOPS_SAMPLE": lambda: int(settings.SAMPLE),
    "DBOPS_SAMPLE_URL": lambda: settings.SAMPLE_URL,
    **{
        f"DBOPS_{name}": partial(getattr, settings, name)
        for name in (
            *("PROBE_INTERVAL_SECONDS", "FACTS_MAX_AGE_SECONDS", "TICK_SECONDS", "LEASE_SECONDS", "LOST_AFTER_SECONDS"),
            *("QUEUE_EXPIRES_SECONDS", "CATCH_UP_LAG_SECONDS", "VERIFY_STEADY_SECONDS", "GUARD_HEARTBEAT_SECONDS"),
            *("CERTIFICATE_SECONDS", "COMPARISON_PAUSE_SECONDS"),
            *("GUARD_IDLE_SECONDS", "UNREACHABLE_TIMEOUT_SECONDS", "STALL_NOTICE_SECONDS", "STALL_STOP_SECONDS"),
            *("STALL_STREAM_SECONDS", "STALL_UNPACK_SECONDS", "STALL_PREPARE_SECONDS", "STALL_CATCH_UP_SECONDS"),
            *(
                "SHARED_READ_WAIT_SECONDS",
                "SHARED_READ_STALL_SECONDS",
                "SHARED_READ_BUFFER_BYTES",
                "LINK_TEST_INTERVAL_SECONDS",
                "AUTO_THROTTLE_LATENCY_MS",
            ),
            *(
                "RESTORE_TEST_INTERVAL_SECONDS",
                "RESTORE_TEST_OLD_AFTER_SECONDS",
                "RESTORE_TEST_CORES",
                "RESTORE_TEST_DIRECTORY",
            ),
            *(
                "LOAD_TEST_SERVER_CORES",
                "LOAD_TEST_GENERATOR_CORES",
                "LOAD_TEST_DIRECTORY",
                "LOAD_TEST_MAX_SECONDS",
                "LOAD_TEST_POOL_BYTES",
            ),
            *(
                "START_TIMEOUT_SECONDS",
                "REDUNDANCY_GOAL_SECONDS",
                "INVENTORY_DIR",
                "AUDIT_HEAD_SECONDS",
                "AUDIT_HEAD_FILE",
                "AUDIT_HEAD_SYSLOG",
            ),
        )
    },
    "DBOPS_LOAD_TEST_ON_PRIMARY_HOSTS": lambda: int(settings.LOAD_TEST_ON_PRIMARY_HOSTS),
    "DBOPS_RELAX_DURABILITY": lambda: int(settings.RELAX_DURABILITY),
    "DBOPS_NOTIFICATION_NETWORKS": lambda: ", ".join(settings.NOTIFICATION_NETWORKS),
    "DBOPS_BASE_URL": lambda: settings.BASE_URL,
    "DBOPS_BLOCKED_TOO_LONG_SECONDS": lambda: settings.BLOCKED_TOO_LONG_SECONDS,
    "DBOPS_LIMIT_NOTICE_DAYS": lambda: settings.LIMIT_NOTICE_DAYS,
    "DBOPS_CERTIFICATE_NOTICE_DAYS": lambda: settings.CERTIFICATE_NOTICE_DAYS,
    "DBOPS_NOTIFICATION_KEEP_DAYS": lambda: settings.NOTIFICATION_KEEP_DAYS,
    "DBOPS_TRACES_URL": lambda: settings.TRACES_URL,
    "DBOPS_API_TOKEN_MAX_DAYS": lambda: settings.API_TOKEN_MAX_DAYS,
    **{
        name: partial(_from_environment, name, default)
        for name, default in {
            "DBOPS_WEB_HOST": "127.0.0.1",
            "DBOPS_WEB_PORT": "8000",
            "DBOPS_WORKER_CONCURRENCY": "4",
            "DBOPS_REDIS_PORT": "6379",
            "DBOPS_REDIS_BIND": "127.0.0.1",
            "DBOPS_REDIS_DIR": "STATE_DIR/redis",
            "DBOPS_REDIS_PROTECTED": "yes",
        }.items()
    },
}
#: A key that is not in the environment is in its file.
KEYS = ("DBOPS_SECRET_KEY", "DBOPS_ENCRYPTION_KEY")


@dataclass(frozen=True, slots=True)
class Setting:
    """One variable: its displayed value, and its origin."""

    name: str
    value: str
    origin: str


def in_effect() -> list[Setting]:
    """Return every setting of this web process. No query."""
    return [Setting(name, _shown(read()), _origin(name)) for name, read in SETTINGS.items()]


def versions() -> dict[str, str]:
    """Return the versions for a bug report. Three queries at most."""
    return {
        "dbops": __version__,
        "Schema": _schema(),
        "Python": platform.python_version(),
        "Django": django.get_version(),
        "Celery": celery.__version__,
        "Database": _database(),
        "System": f"{platform.system()} {platform.release()} ({platform.machine()})",
    }


def without_password(url: str) -> str:
    """Return a URL without its password and the secrets in its options."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":  # a path; rebuilding it would lose slashes
        return url
    place = parts.netloc
    if parts.password is not None:
        before, _, host = place.rpartition("@")
        place = f"{before.partition(':')[0]}:{MASK}@{host}"
    options = [
        (name, MASK if any(part in name.lower() for part in SECRET_PARTS) else value)
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
    ]
    return urlunsplit(parts._replace(netloc=place, query=urlencode(options, safe="*/")))


def _origin(name: str) -> str:
    if os.environ.get(name):
        return ENVIRONMENT
    return FROM_FILE if name in KEYS else DEFAULT


def _shown(value: object) -> str:
    return value if isinstance(value, Phrase) else str(value)


def _is_set(value: object) -> str:
    return phrase("set") if value else phrase("not set")


def _file(variable: str, name: str) -> str:
    return os.environ.get(variable) or str(settings.STATE_DIR / name)


def _database_file() -> str:
    return sqlite_url(settings.STATE_DIR / "dbops.sqlite3")


def _database() -> str:
    sql = "SELECT sqlite_version()" if connection.vendor == "sqlite" else "SELECT version()"
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return f"{connection.vendor}: {cursor.fetchone()[0]}"


def _schema() -> str:
    """Return the last migration of the database, and the number of missing ones of this version."""
    loader = MigrationLoader(connection)
    ours = sorted(name for app, name in loader.applied_migrations if app == "dbops")
    missing = [key for key in loader.disk_migrations if key not in loader.applied_migrations]
    last = ours[-1] if ours else "none"
    return (
        phrase("{last} ({number} not applied: run script/run migrate)", last=last, number=len(missing))
        if missing
        else last
    )


def pulses() -> dict[str, datetime]:
    """Return the last heartbeat by process name; a process that never reported is left out. One query."""
    return processes()[0]


def processes() -> tuple[dict[str, datetime], int]:
    """Return ``pulses``, and how many messages of the queue workers dropped because dbops had not sent them. One query."""
    rows = list(ProcessHeartbeat.objects.values_list("name", "at", "dropped_messages"))
    return {name: at for name, at, _ in rows}, sum(dropped for _, _, dropped in rows)
