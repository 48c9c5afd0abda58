"""All settings. Each ``DBOPS_*`` variable is explained in ``docs/configuration.md``."""

import os
from pathlib import Path
from typing import Any

from csp.constants import NONE, SELF

from dbops.databases import database_settings
from dbops.keys import make_encryption_key, make_signing_key, read_or_make

BASE_DIR = Path(__file__).resolve().parent.parent


def env_bool(name: str, default: bool) -> bool:
    """Return a variable that may be only 0 or 1, so that a typing error never turns something on."""
    value = os.environ.get(name, "1" if default else "0")
    if value not in ("0", "1"):
        raise ValueError(f"{name} must be 0 or 1, not {value!r}")
    return value == "1"


def env_int(name: str, default: int) -> int:
    return int(os.environ.get(name, default))


def env_list(name: str, default: str = "") -> list[str]:
    return [item.strip() for item in os.environ.get(name, default).split(",") if item.strip()]


STATE_DIR = Path(os.environ.get("DBOPS_STATE_DIR", BASE_DIR / "var"))
DEBUG = env_bool("DBOPS_DEBUG", False)
SECRET_KEY = read_or_make(
    variable="DBOPS_SECRET_KEY",
    file=Path(os.environ.get("DBOPS_SECRET_KEY_FILE", STATE_DIR / "secret.key")),
    make=make_signing_key,
)
# Several keys, separated by commas: the first encrypts, all decrypt (rotation).
ENCRYPTION_KEYS = read_or_make(
    variable="DBOPS_ENCRYPTION_KEY",
    file=Path(os.environ.get("DBOPS_ENCRYPTION_KEY_FILE", STATE_DIR / "encryption.key")),
    make=make_encryption_key,
).split(",")

ALLOWED_HOSTS = env_list("DBOPS_ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
CSRF_TRUSTED_ORIGINS = env_list("DBOPS_TRUSTED_ORIGINS")
SECURE_COOKIES = env_bool("DBOPS_HTTPS", False)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_COOKIES
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if SECURE_COOKIES else None
SESSION_COOKIE_AGE = 12 * 3600
X_FRAME_OPTIONS = "DENY"

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "csp",
    "dbops.apps.DbopsConfig",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "csp.middleware.CSPMiddleware",
    "dbops.web.refusals.RefusedMiddleware",
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
                "dbops.web.bars.bars",
            ],
            "builtins": ["dbops.web.templatetags.dbops", "dbops.web.templatetags.moments"],
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
    "default": database_settings(
        os.environ.get("DBOPS_DATABASE_URL", f"sqlite:///{STATE_DIR / 'dbops.sqlite3'}"),
        wait_seconds=env_int("DBOPS_DATABASE_WAIT_SECONDS", 20),
    )
}

CSRF_FAILURE_VIEW = "dbops.web.views.errors.csrf_failure"
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "fleet"
LOGOUT_REDIRECT_URL = "login"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

LANGUAGE_CODE = "en"
USE_I18N = False
TIME_ZONE = os.environ.get("DBOPS_TIME_ZONE", "UTC")
USE_TZ = True

STATIC_URL = "/static/"
STATIC_ROOT = STATE_DIR / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
WHITENOISE_USE_FINDERS = True
MESSAGE_TAGS = {40: "danger"}

REDIS_URL = os.environ.get("DBOPS_REDIS_URL", "redis://127.0.0.1:6379/0")

# How the product behaves; times in seconds.
PROBE_INTERVAL_SECONDS = env_int("DBOPS_PROBE_INTERVAL_SECONDS", 15)
FACTS_FRESH_SECONDS = env_int("DBOPS_FACTS_FRESH_SECONDS", 60)
TICK_SECONDS = env_int("DBOPS_TICK_SECONDS", 15)
LEASE_SECONDS = env_int("DBOPS_LEASE_SECONDS", 20)
LOST_AFTER_SECONDS = env_int("DBOPS_LOST_AFTER_SECONDS", 120)
QUEUE_EXPIRES_SECONDS = env_int("DBOPS_QUEUE_EXPIRES_SECONDS", 24 * 3600)
CATCH_UP_LAG_SECONDS = env_int("DBOPS_CATCH_UP_LAG_SECONDS", 1)
VERIFY_STEADY_SECONDS = env_int("DBOPS_VERIFY_STEADY_SECONDS", 2)
GUARD_HEARTBEAT_SECONDS = env_int("DBOPS_GUARD_HEARTBEAT_SECONDS", 45)
GUARD_IDLE_SECONDS = env_int("DBOPS_GUARD_IDLE_SECONDS", 900)
UNREACHABLE_PATIENCE_SECONDS = env_int("DBOPS_UNREACHABLE_PATIENCE_SECONDS", 30)
START_TIMEOUT_SECONDS = env_int("DBOPS_START_TIMEOUT_SECONDS", 300)
STALL_NOTICE_SECONDS = env_int("DBOPS_STALL_NOTICE_SECONDS", 60)
STALL_STOP_SECONDS = env_int("DBOPS_STALL_STOP_SECONDS", 1800)
STALL_STREAM_SECONDS = env_int("DBOPS_STALL_STREAM_SECONDS", 300)
STALL_UNPACK_SECONDS = env_int("DBOPS_STALL_UNPACK_SECONDS", 1800)
STALL_PREPARE_SECONDS = env_int("DBOPS_STALL_PREPARE_SECONDS", 3600)
STALL_CATCH_UP_SECONDS = env_int("DBOPS_STALL_CATCH_UP_SECONDS", 300)

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    # A calendar's token stands in its address, and the web server writes addresses.
    "filters": {"without_tokens": {"()": "dbops.cleaner.WithoutTokens"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "root": {"handlers": ["console"], "level": "INFO"},
    "loggers": {
        "paramiko": {"level": "WARNING"},
        "uvicorn.access": {"filters": ["without_tokens"], "propagate": True},
    },
}
