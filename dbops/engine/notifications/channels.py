"""Addresses of channels: which services and options are allowed, and what a page may show of them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import parse_qs, unquote_plus

from dbops.engine.network.addresses import is_ip_address, is_loopback, other_scheme, split_address
from dbops.engine.notifications.addresses import is_allowed
from dbops.engine.phrases import phrase

#: Wait after the first failed delivery, and the longest one, in seconds.
FIRST_WAIT, LONGEST_WAIT = 10, 900
HEARTBEAT_MINUTES = range(1, 24 * 60 + 1)


class ChannelKind(StrEnum):
    """Kind of a channel: a message to a service, a signed webhook, or the heartbeat of dbops itself."""

    MESSAGE = "message"
    WEBHOOK = "webhook"
    HEARTBEAT = "heartbeat"


@dataclass(frozen=True, slots=True)
class Service:
    """A service that Apprise can send to.

    Args:
        options: names of options that its address may have. Options that read files or turn off checks are left out.
        has_host: whether the host in its address is a server's name, and no secret.
    """

    title: str
    form: str
    options: frozenset[str] = frozenset()
    has_host: bool = False
    is_encrypted: bool = True


_MAIL = frozenset({"from", "to", "cc", "bcc", "name", "reply", "smtp", "user", "pass", "mode"})
#: By scheme. The services use TLS; of mail, only ``mailtos`` does.
SERVICES: dict[str, Service] = {
    "mailtos": Service(
        phrase("E-mail"), "mailtos://USER:PASSWORD@HOST:587?from=ADDRESS&to=ADDRESS", _MAIL, has_host=True
    ),
    "mailto": Service(
        phrase("E-mail without TLS"),
        "mailto://HOST:25?from=ADDRESS&to=ADDRESS",
        _MAIL,
        has_host=True,
        is_encrypted=False,
    ),
    "slack": Service("Slack", "slack://TOKEN_A/TOKEN_B/TOKEN_C/%23CHANNEL", frozenset({"to", "mode", "footer"})),
    "workflows": Service(
        "Microsoft Teams (Workflows)",
        "workflows://HOST/WORKFLOW/SIGNATURE",
        frozenset({"workflow", "id", "signature", "sig", "api-version", "ver", "route", "routeid"}),
    ),
    "pagerduty": Service("PagerDuty", "pagerduty://INTEGRATION_KEY@API_KEY", frozenset({"region", "source", "group"})),
    "opsgenie": Service("Opsgenie", "opsgenie://API_KEY", frozenset({"region", "priority", "tags", "to"})),
    "discord": Service("Discord", "discord://WEBHOOK_ID/WEBHOOK_TOKEN", frozenset({"thread"})),
    "tgram": Service("Telegram", "tgram://BOT_TOKEN/CHAT_ID", frozenset({"to", "topic", "silent"})),
    "gchat": Service("Google Chat", "gchat://SPACE/KEY/TOKEN", frozenset({"threadkey"})),
    "webex": Service("Webex", "webex://TOKEN", frozenset({"to", "mode"})),
    "zulip": Service("Zulip", "zulip://BOT@ORGANIZATION/TOKEN/STREAM", frozenset({"to"})),
    "mmosts": Service("Mattermost", "mmosts://HOST/TOKEN", frozenset({"to", "channel"}), has_host=True),
    "rockets": Service("Rocket.Chat", "rockets://WEBHOOK@HOST/%23CHANNEL", frozenset({"to", "mode"}), has_host=True),
    "ntfys": Service("ntfy", "ntfys://TOKEN@HOST/TOPIC", frozenset({"priority", "auth", "mode"})),
    "gotifys": Service("Gotify", "gotifys://HOST/TOKEN", frozenset({"priority"}), has_host=True),
}


def check_address(kind: ChannelKind, address: str, networks: Sequence[str]) -> str:
    """Check a channel's address. Return what may be shown of it.

    Args:
        networks: private networks that channels may reach.

    Raises:
        ValueError: it is not allowed; the text says why, without a part of the address.
    """
    parts = split_address(address)
    host = parts.hostname or ""
    if "#" in address or address.count("?") > 1:
        raise ValueError(phrase("the address has a # or a second ?; write {sign} and {mark}", sign="%23", mark="%3F"))
    if not address.startswith(f"{parts.scheme}:"):
        raise ValueError(phrase("the address has a scheme in capital letters"))
    if kind is ChannelKind.MESSAGE:
        return _check_service(address, parts.scheme, host)
    return _check_url(parts.scheme, parts.netloc, host, networks)


def is_encrypted(shown: str) -> bool:
    """Return whether the way to a channel is encrypted, by what ``check_address`` returned."""
    scheme = shown.partition(":")[0]
    return SERVICES[scheme].is_encrypted if scheme in SERVICES else scheme == "https"


def with_incident(address: str, incident: str) -> str:
    """Return an address with options for this message: PagerDuty then closes the incident that it opened."""
    scheme = address.partition(":")[0]
    extra = {"pagerduty": f"action=map&dedup={incident}" if incident else "", "opsgenie": "action=new"}.get(scheme, "")
    return f"{address}{'&' if '?' in address else '?'}{extra}" if extra else address


def _check_service(address: str, scheme: str, host: str) -> str:
    service = SERVICES.get(scheme)
    if service is None:
        raise ValueError(other_scheme(SERVICES))
    query = address.partition("?")[2]
    names = [unquote_plus(part.partition("=")[0]).lower() for part in query.replace(";", "&").split("&") if part]
    if not_allowed := sorted({name for name in names if name not in service.options}):
        word = not_allowed[0] if not_allowed[0].isalnum() else "one"
        raise ValueError(phrase("the address has an option that is not allowed: {word}", word=word))
    if not scheme.startswith("mailto"):
        return f"{scheme}://{host}/..." if service.has_host else f"{scheme}://..."
    values = {name: found[0] for name, found in parse_qs(query).items()}
    # Apprise sends a message of its own to each recipient of to=: a retry would repeat those that arrived.
    if "@" not in values.get("to", "") or len(re.split(r"[\s,;]+", values["to"].strip())) > 1:
        raise ValueError(phrase("the address needs one recipient in to=; put others into cc="))
    return f"{scheme}://{values.get('smtp', host)} to {values['to']}"


def _check_url(scheme: str, place: str, host: str, networks: Sequence[str]) -> str:
    if "@" in place:
        raise ValueError(phrase("the address has a user or a password"))
    if scheme not in ("https", "http"):
        raise ValueError(phrase("the address does not start with https://"))
    if scheme == "http" and not (is_loopback(host) and is_allowed(host, networks)):
        raise ValueError(
            phrase("http:// is allowed only to 127.0.0.1 or ::1, and if DBOPS_NOTIFICATION_NETWORKS contains it")
        )
    if is_ip_address(host) and not is_allowed(host, networks):
        raise ValueError(
            phrase("the address is in a private network that DBOPS_NOTIFICATION_NETWORKS does not contain")
        )
    return f"{scheme}://{place}/..."
