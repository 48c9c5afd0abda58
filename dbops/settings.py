"""All settings. Each ``DBOPS_*`` variable is explained in ``docs/reference/configuration.md``."""

import os
from pathlib import Path
from typing import Any

from csp.constants import NONE, SELF

from dbops.database.config import database_settings, sqlite_url
from dbops.engine.notifications.addresses import check_networks
from dbops.lib.environment import clearly, env_base_url, env_bool, env_choice, env_int, env_list, env_prefix, env_url
from dbops.messaging.redis_server import broker_options, broker_url
from dbops.security.keys import (
    dashboard_name,
    make_encryption_key,
    make_signing_key,
    read_if_there,
    read_or_make,
    with_password,
)
from dbops.security.login_settings import read_groups, read_issuer, read_second_factor, require_provider
from dbops.security.secret_files import refuse_root_of_other_state
from dbops.security.vault_settings import read_vault

BASE_DIR = Path(__file__).resolve().parent.parent

STATE_DIR = Path(os.environ.get("DBOPS_STATE_DIR", BASE_DIR / "var"))
clearly(refuse_root_of_other_state)(STATE_DIR)
DEBUG = env_bool("DBOPS_DEBUG", False)
SECRET_KEY = clearly(read_or_make)(
    variable="DBOPS_SECRET_KEY",
    file=Path(os.environ.get("DBOPS_SECRET_KEY_FILE", STATE_DIR / "secret.key")),
    make=make_signing_key,
)
# Comma-separated keys for rotation: the first encrypts, all decrypt. Processes read a replaced file again.
ENCRYPTION_KEY_FILE = Path(os.environ.get("DBOPS_ENCRYPTION_KEY_FILE", STATE_DIR / "encryption.key"))
ENCRYPTION_KEYS = clearly(read_or_make)(
    variable="DBOPS_ENCRYPTION_KEY", file=ENCRYPTION_KEY_FILE, make=make_encryption_key
).split(",")
ENCRYPTION_KEYS_IN_FILE = not os.environ.get("DBOPS_ENCRYPTION_KEY")

# Public keys of the CAs of host certificates; empty: none.
SSH_HOST_CA_FILE = os.environ.get("DBOPS_SSH_HOST_CA_FILE", "")
# Vault or OpenBao with secrets of the inventory; without an address: none.
VAULT = clearly(read_vault)(os.environ)

# Key files that people may name in the browser. Anyone with a shell names any file with `manage.py fleet import`.
KEY_DIRECTORY = Path(os.environ.get("DBOPS_KEY_DIRECTORY", STATE_DIR / "keys"))

# Loopback always: a health check on this machine asks by address. No page of another site can send these names.
ALLOWED_HOSTS = list(dict.fromkeys([*env_list("DBOPS_ALLOWED_HOSTS"), "localhost", "127.0.0.1", "[::1]"]))
# The name of this installation on database hosts: for people its host, and a part that no other installation has.
DASHBOARD = dashboard_name(ALLOWED_HOSTS, SECRET_KEY)
CSRF_TRUSTED_ORIGINS = env_list("DBOPS_TRUSTED_ORIGINS")
SECURE_COOKIES = env_bool("DBOPS_HTTPS", False)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_COOKIES
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if SECURE_COOKIES else None
SESSION_COOKIE_AGE = 12 * 3600
# Path of all pages behind a proxy that serves other sites on the same host name. Other sites do not get the cookies.
URL_PREFIX = env_prefix("DBOPS_URL_PREFIX")
FORCE_SCRIPT_NAME = URL_PREFIX or None
SESSION_COOKIE_PATH = CSRF_COOKIE_PATH = URL_PREFIX or "/"
X_FRAME_OPTIONS = "DENY"

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "csp",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "dbops.apps.DbopsConfig",
]
MIDDLEWARE = [
    "dbops.web.middleware.origin.origin_middleware",
    "dbops.web.middleware.api_errors.ApiErrorsMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "dbops.web.middleware.compression.PagesGZipMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "dbops.web.middleware.languages.LanguageMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "dbops.web.middleware.login_required.LoginMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "dbops.web.middleware.names.NamesMiddleware",
    "dbops.web.middleware.login_sessions.LoginSessionMiddleware",
    "dbops.web.middleware.given_passwords.GivenPasswordMiddleware",
    "dbops.web.middleware.second_factor.SecondFactorMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "csp.middleware.CSPMiddleware",
    "dbops.web.middleware.refusals.RefusedMiddleware",
    "dbops.web.middleware.sample.SampleMiddleware",
]
ROOT_URLCONF = "dbops.urls"
ASGI_APPLICATION = "dbops.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": False,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "dbops.web.live.status_bars.bars",
            ],
            "builtins": [
                "django.templatetags.i18n",
                *(f"dbops.web.templatetags.{path.stem}" for path in BASE_DIR.glob("dbops/web/templatetags/[a-z]*.py")),
            ],
        },
    }
]
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    }
}

DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES: dict[str, Any] = {
    "default": clearly(database_settings)(
        os.environ.get("DBOPS_DATABASE_URL", sqlite_url(STATE_DIR / "dbops.sqlite3")),
        wait_seconds=env_int("DBOPS_DATABASE_WAIT_SECONDS", 20),
        password=clearly(read_if_there)(
            variable="DBOPS_DATABASE_PASSWORD",
            file=Path(os.environ.get("DBOPS_DATABASE_PASSWORD_FILE") or STATE_DIR / "database.password"),
        ),
    )
}

CSRF_FAILURE_VIEW = "dbops.web.views.errors.csrf_failure"
# Second factors and OpenID Connect, by django-allauth. Local passwords are checked by dbops's own page and limits.
AUTHENTICATION_BACKENDS = ["django.contrib.auth.backends.ModelBackend"]
ACCOUNT_ADAPTER = "dbops.web.login.adapters.AccountAdapter"
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_SIGNUP_FIELDS = ["username*"]
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_RATE_LIMITS = MFA_RATE_LIMITS = (
    False  # they live in one process's memory; login_limits.py counts in the database
)
ACCOUNT_REAUTHENTICATION_METHODS = ["password", "mfa"]
MFA_ADAPTER = "dbops.web.login.adapters.FactorAdapter"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_TOTP_TOLERANCE = 1
MFA_WEBAUTHN_USER_VERIFICATION = "preferred"
SOCIALACCOUNT_ADAPTER = "dbops.web.login.provider.ProviderAdapter"
SOCIALACCOUNT_REQUESTS_TIMEOUT = 10
SILENCED_SYSTEM_CHECKS = [
    "models.W036"
]  # MariaDB ignores allauth's conditional constraints; dbops locks the account instead

# Groups whose members need a second factor besides a local password; empty: none.
SECOND_FACTOR_GROUPS = clearly(read_second_factor)(env_list("DBOPS_SECOND_FACTOR_GROUPS"))
# An OpenID Connect provider; empty: none. Groups of its claim are mapped to those of dbops.
OIDC_ISSUER = clearly(read_issuer)(os.environ.get("DBOPS_OIDC_ISSUER", ""))
OIDC_CLIENT_ID = os.environ.get("DBOPS_OIDC_CLIENT_ID", "")
OIDC_CLIENT_SECRET = clearly(read_if_there)(
    variable="DBOPS_OIDC_CLIENT_SECRET",
    file=Path(os.environ.get("DBOPS_OIDC_CLIENT_SECRET_FILE") or STATE_DIR / "oidc-client.secret"),
)
OIDC_NAME = os.environ.get("DBOPS_OIDC_NAME", "single sign-on")
OIDC_SCOPES = env_list("DBOPS_OIDC_SCOPES", "openid,profile")
OIDC_NAME_CLAIM = os.environ.get("DBOPS_OIDC_NAME_CLAIM", "preferred_username")
OIDC_GROUPS_CLAIM = os.environ.get("DBOPS_OIDC_GROUPS_CLAIM", "groups")
OIDC_GROUPS = clearly(read_groups)(env_list("DBOPS_OIDC_GROUPS"))
# With it, this account alone can log in without the provider.
RECOVERY_ACCOUNT = os.environ.get("DBOPS_RECOVERY_ACCOUNT", "")
clearly(require_provider)(OIDC_ISSUER, OIDC_CLIENT_ID, OIDC_GROUPS, RECOVERY_ACCOUNT)

LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "fleet"
LOGOUT_REDIRECT_URL = "login"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "dbops.security.passwords.NotTheNameValidator"},
]

# Languages of the pages; logs, records, command line and API are English. A language is offered when its file is complete.
LANGUAGE_CODE, LANGUAGES = "en", [("en", "English"), ("ja", "日本語")]
LANGUAGE_COOKIE_NAME, LANGUAGE_COOKIE_PATH = "dbops_language", f"{URL_PREFIX}/"
LOCALE_PATHS = [BASE_DIR / "locale"]
TIME_ZONE = os.environ.get("DBOPS_TIME_ZONE", "UTC")
USE_TZ = True

STATIC_URL = f"{URL_PREFIX}/static/"
STATIC_ROOT = STATE_DIR / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
# Without collected files, serve the originals uncompressed, so that tests and developers need no extra step.
WHITENOISE_USE_FINDERS = True
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "dbops.web.middleware.compression.CollectedStorage"},
}
MESSAGE_TAGS = {40: "danger"}

REDIS_URL = with_password(
    os.environ.get("DBOPS_REDIS_URL", "redis://127.0.0.1:6379/0"),
    clearly(read_if_there)(
        variable="DBOPS_REDIS_PASSWORD",
        file=Path(os.environ.get("DBOPS_REDIS_PASSWORD_FILE") or STATE_DIR / "redis.password"),
    ),
)

# The sample: generated history in its own read-only database, filled by `manage.py sample`.
SAMPLE = env_bool("DBOPS_SAMPLE", False)
# Address of the sample beside this dashboard; empty: none.
SAMPLE_URL = os.environ.get("DBOPS_SAMPLE_URL", "")
if SAMPLE:
    # Cookies ignore the port: with the same names, the sample would log people out of the real dashboard.
    SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = "sample_sessionid", "sample_csrftoken"

# Behavior of dbops; times in seconds.
PROBE_INTERVAL_SECONDS = env_int("DBOPS_PROBE_INTERVAL_SECONDS", 15)
FACTS_MAX_AGE_SECONDS = env_int("DBOPS_FACTS_MAX_AGE_SECONDS", 60)
if SAMPLE:
    # The sample has no probes, so its facts never become outdated.
    PROBE_INTERVAL_SECONDS = FACTS_MAX_AGE_SECONDS = 10 * 366 * 86400
TICK_SECONDS = env_int("DBOPS_TICK_SECONDS", 15)
LEASE_SECONDS = env_int("DBOPS_LEASE_SECONDS", 20)
LOST_AFTER_SECONDS = env_int("DBOPS_LOST_AFTER_SECONDS", 120)
QUEUE_EXPIRES_SECONDS = env_int("DBOPS_QUEUE_EXPIRES_SECONDS", 24 * 3600)
CATCH_UP_LAG_SECONDS = env_int("DBOPS_CATCH_UP_LAG_SECONDS", 1)
RELAX_DURABILITY = env_bool("DBOPS_RELAX_DURABILITY", True)
CERTIFICATE_SECONDS = env_int("DBOPS_CERTIFICATE_SECONDS", 120)
COMPARISON_PAUSE_SECONDS = env_int("DBOPS_COMPARISON_PAUSE_SECONDS", 5)
VERIFY_STEADY_SECONDS = env_int("DBOPS_VERIFY_STEADY_SECONDS", 60)
GUARD_HEARTBEAT_SECONDS = env_int("DBOPS_GUARD_HEARTBEAT_SECONDS", 45)
GUARD_IDLE_SECONDS = env_int("DBOPS_GUARD_IDLE_SECONDS", 900)
UNREACHABLE_TIMEOUT_SECONDS = env_int("DBOPS_UNREACHABLE_TIMEOUT_SECONDS", 30)
START_TIMEOUT_SECONDS = env_int("DBOPS_START_TIMEOUT_SECONDS", 300)
STALL_NOTICE_SECONDS = env_int("DBOPS_STALL_NOTICE_SECONDS", 60)
STALL_STOP_SECONDS = env_int("DBOPS_STALL_STOP_SECONDS", 1800)
STALL_STREAM_SECONDS = env_int("DBOPS_STALL_STREAM_SECONDS", 300)
STALL_UNPACK_SECONDS = env_int("DBOPS_STALL_UNPACK_SECONDS", 1800)
STALL_PREPARE_SECONDS = env_int("DBOPS_STALL_PREPARE_SECONDS", 3600)
STALL_CATCH_UP_SECONDS = env_int("DBOPS_STALL_CATCH_UP_SECONDS", 300)

# Shared reads: how long the leader waits for followers that still stop their server, when a target that accepts no
# bytes is dropped, and how far targets can be apart (uses memory of the source's host).
SHARED_READ_WAIT_SECONDS = env_int("DBOPS_SHARED_READ_WAIT_SECONDS", 900)
SHARED_READ_STALL_SECONDS = env_int("DBOPS_SHARED_READ_STALL_SECONDS", 120)
SHARED_READ_BUFFER_BYTES = env_int("DBOPS_SHARED_READ_BUFFER_BYTES", 64 * 1024**2)

# Throttle the stream while a login and query on source or primary takes longer than this many milliseconds (0: never).
AUTO_THROTTLE_LATENCY_MS = float(os.environ.get("DBOPS_AUTO_THROTTLE_LATENCY_MS", "") or 0)

# Interval of automatic stream tests between each backup source and each replica (0: never).
LINK_TEST_INTERVAL_SECONDS = env_int("DBOPS_LINK_TEST_INTERVAL_SECONDS", 30 * 86400)

# Restore tests: interval of automatic tests of each source's newest backup (0: never), when the last successful test
# is too old, processor cores, and folder (empty: beside the backup).
RESTORE_TEST_INTERVAL_SECONDS = env_int("DBOPS_RESTORE_TEST_INTERVAL_SECONDS", 7 * 86400)
RESTORE_TEST_OLD_AFTER_SECONDS = env_int(
    "DBOPS_RESTORE_TEST_OLD_AFTER_SECONDS", 2 * RESTORE_TEST_INTERVAL_SECONDS or 14 * 86400
)
RESTORE_TEST_CORES = env_int("DBOPS_RESTORE_TEST_CORES", 2)
RESTORE_TEST_DIRECTORY = os.environ.get("DBOPS_RESTORE_TEST_DIRECTORY", "")

# Load tests: processor cores of the scratch server and of the load generator, folder (empty: beside the backup, or the work
# directory), longest time, largest buffer pool, and whether hosts of primaries may run them.
LOAD_TEST_SERVER_CORES = env_int("DBOPS_LOAD_TEST_SERVER_CORES", 4)
LOAD_TEST_GENERATOR_CORES = env_int("DBOPS_LOAD_TEST_GENERATOR_CORES", 2)
LOAD_TEST_DIRECTORY = os.environ.get("DBOPS_LOAD_TEST_DIRECTORY", "")
LOAD_TEST_MAX_SECONDS = env_int("DBOPS_LOAD_TEST_MAX_SECONDS", 8 * 3600)
LOAD_TEST_POOL_BYTES = env_int("DBOPS_LOAD_TEST_POOL_BYTES", 32 * 1024**3)
LOAD_TEST_ON_PRIMARY_HOSTS = env_bool("DBOPS_LOAD_TEST_ON_PRIMARY_HOSTS", False)

# Target time to restore full redundancy; availability marks the hours of the week that would miss it.
REDUNDANCY_GOAL_SECONDS = env_int("DBOPS_REDUNDANCY_GOAL_SECONDS", 4 * 3600)

# Notifications: private networks that channels may reach, the address of dbops in messages, thresholds, and how long they are kept.
NOTIFICATION_NETWORKS = clearly(check_networks)(env_list("DBOPS_NOTIFICATION_NETWORKS"))
BASE_URL = env_base_url("DBOPS_BASE_URL")
BLOCKED_TOO_LONG_SECONDS = env_int("DBOPS_BLOCKED_TOO_LONG_SECONDS", 6 * 3600)
LIMIT_NOTICE_DAYS = env_int("DBOPS_LIMIT_NOTICE_DAYS", 30)
CERTIFICATE_NOTICE_DAYS = env_int("DBOPS_CERTIFICATE_NOTICE_DAYS", 14)
API_TOKEN_MAX_DAYS = env_int("DBOPS_API_TOKEN_MAX_DAYS", 366)
NOTIFICATION_KEEP_DAYS = env_int("DBOPS_NOTIFICATION_KEEP_DAYS", 30)

# Traces of rebuilds: the collector's URL (OTLP over HTTP); empty: none are sent.
TRACES_URL = env_url("DBOPS_TRACES_URL")

# Additional destinations of the audit log's head; empty: not used.
INVENTORY_DIR = os.environ.get("DBOPS_INVENTORY_DIR", "")
AUDIT_HEAD_SECONDS = env_int("DBOPS_AUDIT_HEAD_SECONDS", 3600)
AUDIT_HEAD_FILE = os.environ.get("DBOPS_AUDIT_HEAD_FILE", "")
AUDIT_HEAD_SYSLOG = os.environ.get("DBOPS_AUDIT_HEAD_SYSLOG", "")

# Celery: the queue carries an id as a wake-up hint, never state (see ``dbops.celery``).
CELERY_BROKER_URL = broker_url(REDIS_URL)
# Without socket timeouts, a frozen Redis blocks publishing until it recovers (measured: 20.0 s of 20).
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 3600,
    "socket_timeout": 5,
    "socket_connect_timeout": 2,
    "socket_keepalive": True,
    "health_check_interval": 10,
    **broker_options(REDIS_URL),
}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# A Redis that became a read-only replica answers with an error of the channel: without this the worker ends.
CELERY_BROKER_CHANNEL_ERROR_RETRY = True
CELERY_TASK_PUBLISH_RETRY_POLICY = {"max_retries": 1, "interval_start": 0.1}
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = False
CELERY_TASK_REJECT_ON_WORKER_LOST = False
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_DISABLE_PREFETCH = True
CELERY_WORKER_MAX_TASKS_PER_CHILD = 500
CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT = 20
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_SEND_TASK_EVENTS = False
# Without this, anyone who reaches Redis can shut workers down. dbops itself never asks a worker.
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_TASK_SOFT_TIME_LIMIT = TICK_SECONDS + 30
CELERY_TASK_TIME_LIMIT = TICK_SECONDS + 45
CELERY_TASK_DEFAULT_QUEUE = "ticks"
_PROBE_TASKS = (
    "probe_due",
    "watch_backups",
    "discover",
    "test_connection",
    "read_waits",
    "count_availability",
    "forecast_capacity",
    "watch_notifications",
    "send_notifications",
    "trim_notifications",
    "queue_link_tests",
    "queue_restore_tests",
    "sweep_load_tests",
    "send_audit",
    "read_inventory_source",
)
CELERY_TASK_ROUTES = {f"dbops.worker.tasks.{name}": {"queue": "probes"} for name in _PROBE_TASKS}
CELERY_TIMEZONE = "UTC"
CELERY_ENABLE_UTC = True
CELERY_BEAT_SCHEDULER = "dbops.worker.heartbeats:ReportingScheduler"
CELERY_BEAT_SCHEDULE = {
    name: {"task": f"dbops.worker.tasks.{name}", "schedule": seconds}
    for name, seconds in {
        "reconcile": 2.0,
        "probe_due": 2.0,
        "queue_restore_tests": 10.0,
        "sweep_load_tests": 60.0,
        "watch_backups": 30.0,
        "count_availability": 60.0,
        "forecast_capacity": 60.0,
        "queue_link_tests": 60.0,
        "send_audit_head": float(AUDIT_HEAD_SECONDS),
        "watch_notifications": 30.0,
        "trim_notifications": 3600.0,
        **({"send_traces": 30.0} if TRACES_URL else {}),
    }.items()
}

LOG_FORMAT = env_choice("DBOPS_LOG_FORMAT", "plain", "json")
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "plain": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"},
        "json": {"()": "dbops.lib.logs.json_formatter"},
    },
    # A calendar's URL contains its token, and the web server logs URLs.
    "filters": {"without_tokens": {"()": "dbops.security.redaction.WithoutTokens"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": LOG_FORMAT}},
    "root": {"handlers": ["console"], "level": "INFO"},
    "loggers": {
        "paramiko": {"level": "WARNING"},
        # Its own handler has another format.
        "uvicorn": {"handlers": [], "level": "INFO", "propagate": True},
        "uvicorn.access": {"filters": ["without_tokens"], "propagate": True},
    },
}
