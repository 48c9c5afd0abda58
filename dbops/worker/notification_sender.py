"""Send due notifications: all channels at once, each in a process of its own, so that one that hangs delays no other one.

It uses one worker process, whatever number of channels hang. Rebuilds have workers of their own queue.
"""

import json
import logging
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from django.conf import settings
from django.utils import timezone

from dbops.database import clock
from dbops.drivers.notifications import send_message, send_request
from dbops.engine.errors import DbopsError, NoAccess, Refused
from dbops.engine.notifications import messages, webhooks
from dbops.engine.notifications.channels import ChannelKind, check_address
from dbops.engine.notifications.events import OWN_EVENTS, REPORT, EventState
from dbops.engine.notifications.messages import Message, Reported
from dbops.engine.phrases import phrase
from dbops.lifecycle import notification_deliveries as deliveries
from dbops.models import NotificationChannel, NotificationDelivery, NotificationEvent, NotificationWatch
from dbops.models.secret import vault_path
from dbops.queries.admin.configuration import pulses
from dbops.queries.notifications.occurrences import PROCESSES, SILENT_SECONDS
from dbops.security.vault import reading
from dbops.worker import weekly_report

log = logging.getLogger(__name__)
#: Channels that are sent to at the same time.
MOST_AT_ONCE = 16
#: The last look for events must not be older than this for dbops to be well.
LOOK_SECONDS = 180

Batch = list[NotificationDelivery]
Send = Callable[[], None]


def send_due(*, seconds: float) -> int:
    """Send what is due, and begin no message after ``seconds``. Return the number of sent messages."""
    until, sent = time.monotonic() + seconds, 0
    claimed: dict[Future[None], tuple[NotificationChannel, Batch]] = {}
    mine: list[NotificationChannel] = []
    with ThreadPoolExecutor(MOST_AT_ONCE) as pool:
        try:
            for key in deliveries.due(clock.now()).order_by("next_try_at").values_list("pk", flat=True)[:MOST_AT_ONCE]:
                if channel := deliveries.claim(key):
                    mine.append(channel)
                    _begin(pool, channel, claimed)
            while claimed:
                over, _ = wait(claimed, return_when=FIRST_COMPLETED)
                for future in over:
                    channel, batch = claimed.pop(future)
                    if _record(future, channel, batch):
                        sent += 1
                        if time.monotonic() < until and channel.kind != ChannelKind.HEARTBEAT:
                            _begin(pool, channel, claimed)
        finally:
            for channel in mine:
                deliveries.release(channel)
    return sent


def is_well(now: datetime) -> bool:
    """Return whether workers, beat and the look for events are alive, and no job is late. Three queries."""
    beats = pulses()
    alive = all(name in beats and (now - beats[name]).total_seconds() <= SILENT_SECONDS for name in PROCESSES)
    looked = NotificationWatch.objects.filter(looked_at__gt=now - timedelta(seconds=LOOK_SECONDS)).exists()
    unwell = NotificationEvent.objects.filter(kind__in=OWN_EVENTS, resolved_at=None).exclude(routed="").exists()
    return alive and looked and not unwell


def _begin(
    pool: ThreadPoolExecutor,
    channel: NotificationChannel,
    claimed: dict[Future[None], tuple[NotificationChannel, Batch]],
) -> None:
    """Start the channel's next message, if there is one."""
    batch = deliveries.next_batch(channel)
    try:
        send = _heartbeat(channel, batch) if channel.kind == ChannelKind.HEARTBEAT else _message(channel, batch)
    except DbopsError as error:  # a lost key, or Vault
        _fail(channel, batch, error)
        return
    if send is not None:
        claimed[pool.submit(send)] = (channel, batch)


def _record(future: Future[None], channel: NotificationChannel, batch: Batch) -> bool:
    """Record the end of an attempt. Return whether the receiver has the message and the lease still counts."""
    try:
        future.result()
    except DbopsError as error:
        _fail(channel, batch, error)
        return False
    return deliveries.mark_sent(channel, batch)


def _fail(channel: NotificationChannel, batch: Batch, error: DbopsError) -> None:
    log.warning("notification channel %s: %s", channel.name, error)
    deliveries.mark_failed(channel, batch, error)


def _heartbeat(channel: NotificationChannel, batch: Batch) -> Send | None:
    if not batch and not is_well(clock.now()):
        cause = phrase("workers or beat are silent, jobs are late, or no process looks for events")
        deliveries.withhold(channel, Refused("notification.withheld", phrase("Sending the heartbeat"), cause=cause))
        return None
    return partial(
        send_request, _address(channel), method="GET", ca=channel.ca, networks=settings.NOTIFICATION_NETWORKS
    )


def _message(channel: NotificationChannel, batch: Batch) -> Send | None:
    if not batch:
        return None
    now, networks = clock.now(), settings.NOTIFICATION_NETWORKS
    reported = [_reported(one) for one in batch if one.event]
    if channel.kind == ChannelKind.WEBHOOK:
        body = json.dumps(_payload(channel, reported, now)).encode()
        is_old_good = channel.old_secret_until is not None and now < channel.old_secret_until
        secrets = [channel.secret, *([channel.old_secret] if is_old_good else [])]
        headers = {"Content-Type": "application/json", **webhooks.headers(batch[0].message, now, body, secrets)}
        return partial(
            send_request, _address(channel), method="POST", body=body, headers=headers, ca=channel.ca, networks=networks
        )
    return partial(send_message, _address(channel), _text(channel, reported, now), ca=channel.ca, networks=networks)


def _address(channel: NotificationChannel) -> str:
    """Return a channel's address. One in Vault is checked now, because who may write there is not who added the channel.

    Raises:
        NoAccess: it is not allowed (``vault.bad_value``).
        Refused, Unreachable: as reading a ``SecretTextField``.
    """
    address, path = channel.address, vault_path(channel, "address")
    if path:
        try:
            check_address(ChannelKind(channel.kind), address, settings.NOTIFICATION_NETWORKS)
        except ValueError as error:
            raise NoAccess("vault.bad_value", reading(path), cause=str(error)) from None
    return address


def _text(channel: NotificationChannel, reported: list[Reported], now: datetime) -> Message:
    if not reported:
        return messages.test_message(channel.name)
    message = messages.message_of(reported)
    if _is_report(reported):
        text, html = weekly_report.render(reported[0].opened_at, now)
        message = replace(message, text="\n".join(part for part in (text, reported[0].url) if part), html=html)
    return message


def _payload(channel: NotificationChannel, reported: list[Reported], now: datetime) -> dict[str, object]:
    if not reported:
        return messages.test_payload(channel.name, now)
    more = weekly_report.numbers(reported[0].opened_at, now) if _is_report(reported) else {}
    return messages.payload_of(reported, now, **more)


def _is_report(reported: list[Reported]) -> bool:
    return len(reported) == 1 and reported[0].kind.name == REPORT


def _reported(delivery: NotificationDelivery) -> Reported:
    event = delivery.event
    assert event is not None  # noqa: S101 - the caller looked
    return Reported(
        number=event.pk,
        kind=messages.kind_named(event.kind),
        state=EventState(delivery.state),
        cluster=event.cluster,
        subject=event.subject,
        detail=event.detail,
        url=settings.BASE_URL + event.path if settings.BASE_URL and event.path else "",
        opened_at=timezone.localtime(event.opened_at),
        resolved_at=event.resolved_at,
    )
