"""Limit wrong passwords and wrong tokens, for each account and each address.

An attempt is counted before its password is checked, by a conditional update: attempts at the same moment share one limit.
"""

import ipaddress
import unicodedata
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import F, Q
from django.utils.crypto import salted_hmac

from dbops.audit.log import append
from dbops.database import clock
from dbops.models import FailedAttempts

KEPT = timedelta(days=1)
LONGEST_NAME = 150


@dataclass(frozen=True, slots=True)
class AttemptLimit:
    """So many failed attempts in so long."""

    name: str
    most: int
    window: timedelta


#: One person who forgot a password, or someone who tries them at one desk.
ACCOUNT_AT_ADDRESS = AttemptLimit("account at address", 5, timedelta(minutes=15))
#: An office shares an address, and so do all people behind a proxy that is not declared to the web server.
ADDRESS = AttemptLimit("address", 100, timedelta(minutes=15))
#: Guesses from many addresses. High: it must be hard to keep a DBA out.
ACCOUNT = AttemptLimit("account", 100, timedelta(hours=1))
#: Guesses of someone who knows the password. A correct code forgets them.
SECOND_FACTOR = AttemptLimit("second factor", 10, timedelta(hours=1))
#: A code of an authenticator app is valid for a minute and a half, and once.
USED_CODE = AttemptLimit("used code", 1, timedelta(minutes=2))
#: Beginnings of logins with a passkey or the provider: each writes a session, or asks the provider.
LOGIN_START = AttemptLimit("login start", 300, timedelta(minutes=15))
TOKEN = AttemptLimit("token", 100, timedelta(minutes=15))


@dataclass(frozen=True, slots=True)
class AttemptKey:
    """One row that counts: the digest of what a limit is about, and of the account if it is about one."""

    limit: AttemptLimit
    digest: str
    account: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A counted attempt."""

    keys: tuple[AttemptKey, ...]
    #: ``None``: it may be checked
    blocked_until: datetime | None
    #: It is the first that the limit refuses.
    is_first_blocked: bool

    def succeeded(self) -> None:
        """Forget the wrong passwords of this account at this address, and this attempt everywhere else."""
        for key in self.keys:
            rows = FailedAttempts.objects.filter(pk=key.digest)
            if key.limit in (ACCOUNT_AT_ADDRESS, SECOND_FACTOR):
                rows.delete()
            else:
                rows.filter(count__gt=0).update(count=F("count") - 1)


def count_login(name: str, address: str) -> Attempt:
    """Count an attempt to log in, before its password is checked.

    Args:
        name: the account's name as typed, also in another spelling that logs in. It is stored as a digest, because it may be a
            password in the wrong field.
        address: the IP address of the client.

    Returns:
        The attempt; with ``blocked_until`` its password must not be checked.
    """
    name, place = spelled(name), network_of(address)
    account = _digest(ACCOUNT, name)
    return _count(
        AttemptKey(ADDRESS, _digest(ADDRESS, place)),
        AttemptKey(ACCOUNT_AT_ADDRESS, _digest(ACCOUNT_AT_ADDRESS, name, place), account),
        AttemptKey(ACCOUNT, account, account),
    )


def count_second_factor(name: str) -> Attempt:
    """Count an attempt at the second factor of an account, before it is checked."""
    account = _digest(ACCOUNT, spelled(name))
    return _count(AttemptKey(SECOND_FACTOR, _digest(SECOND_FACTOR, spelled(name)), account))


def count_login_start(address: str) -> Attempt:
    """Count the beginning of a login that checks no password here."""
    return _count(AttemptKey(LOGIN_START, _digest(LOGIN_START, network_of(address))))


def count_code(name: str, code: str) -> Attempt:
    """Count the use of a code. With ``blocked_until`` it was used before, in whatever web process."""
    digits = "".join(character for character in code if character.isalnum())
    return _count(AttemptKey(USED_CODE, _digest(USED_CODE, spelled(name), digits)))


def count_wrong_token(address: str) -> Attempt:
    """Count a wrong access token. Valid tokens of a blocked address work: 256 random bits are not guessed."""
    return _count(AttemptKey(TOKEN, _digest(TOKEN, network_of(address))))


def unblock(name: str, *, actor: str) -> None:
    """Forget the wrong passwords of an account. A blocked address stays blocked for other accounts."""
    with transaction.atomic():
        FailedAttempts.objects.filter(account=_digest(ACCOUNT, spelled(name))).delete()
        append(actor=actor, action="account.unblocked", subject=name)


def spelled(name: str) -> str:
    """Return the name that Django's login form makes of a typed one. It accepts none that is longer than ``LONGEST_NAME``."""
    return unicodedata.normalize("NFKC", name.strip()[: LONGEST_NAME + 1])


def network_of(address: str) -> str:
    """Return what one client can choose from: its IPv4 address, or its 64-bit prefix of IPv6."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))


def _digest(limit: AttemptLimit, *parts: str) -> str:
    return salted_hmac(f"dbops.failed_attempts.{limit.name}", "\0".join(parts), algorithm="sha256").hexdigest()


def _count(*keys: AttemptKey) -> Attempt:
    """Count an attempt under each key, up to the first that refuses it.

    What is refused at one address must not count against the account: one client would keep it out everywhere.
    """
    now = clock.now()
    for key in keys:
        if refusal := _refusal(key, now):
            return Attempt(keys, *refusal)
    return Attempt(keys, None, is_first_blocked=False)


def _refusal(key: AttemptKey, now: datetime) -> tuple[datetime, bool] | None:
    """Count an attempt under one key. Return the end of its limit, and whether this is the first attempt beyond it."""
    limit, rows = key.limit, FailedAttempts.objects.filter(pk=key.digest)
    # After a step of the clock a beginning may lie in the future.
    if rows.filter(Q(since__lte=now - limit.window) | Q(since__gt=now + limit.window)).update(count=1, since=now):
        return None
    if rows.filter(count__lt=limit.most).update(count=F("count") + 1):
        return None
    since = rows.values_list("since", flat=True).first()
    if since is not None:
        is_first = rows.filter(count=limit.most).update(count=limit.most + 1)
        return since + limit.window, bool(is_first)
    try:
        with transaction.atomic():
            FailedAttempts.objects.create(key=key.digest, account=key.account, count=1, since=now)
    except IntegrityError:
        return _refusal(key, now)  # another attempt was first
    FailedAttempts.objects.filter(since__lt=now - KEPT).delete()
    return None
