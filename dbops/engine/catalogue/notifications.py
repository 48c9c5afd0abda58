"""Errors of notifications: channels, rules and deliveries."""

from dbops.engine.catalogue.entries import UNCHANGED, CatalogueSection, host, operator

KEPT = "The events stay in the delivery log and wait, at most 24 hours."

_ENTRIES = (
    operator(
        "notification.channel_invalid",
        "The channel's name, address, CA, secret or interval isn't valid, or the name is in use.",
        UNCHANGED,
        "Correct it and try again. To change a channel's kind or name, remove it and add it again.",
    ),
    operator(
        "notification.channel_not_found",
        "No channel has this name.",
        UNCHANGED,
        "Run `manage.py notification list` to see all channels.",
    ),
    operator(
        "notification.rule_invalid",
        "The rule's name, events, cluster, severity, hours or digest isn't valid, or the name is in use.",
        UNCHANGED,
        "Correct it and try again. `manage.py notification events` lists all events.",
    ),
    operator(
        "notification.rule_not_found",
        "No rule has this name.",
        UNCHANGED,
        "Run `manage.py notification list` to see all rules.",
    ),
    operator(
        "notification.withheld",
        "dbops is unwell, so it does not send its heartbeat.",
        "The receiver reports the silence.",
        "Start workers and beat, and read their logs. dbops sends the next heartbeat when it is well.",
    ),
    host(
        "notification.unavailable",
        "The receiver can't be reached, did not answer in time, or is too busy.",
        KEPT,
        "Check that the receiver runs, and that the firewall allows every worker. dbops retries.",
    ),
    host(
        "notification.certificate",
        "The receiver's certificate is not valid for this address, or its authority is not trusted.",
        KEPT,
        "Correct the certificate, or remove the channel and add it again with the right CA. dbops retries.",
    ),
    host(
        "notification.address",
        "The receiver's name leads to a private address.",
        f"No connection was made. {KEPT}",
        "Check the name. If the receiver is yours, add its network to `DBOPS_NOTIFICATION_NETWORKS` and restart the workers.",
    ),
    host(
        "notification.rejected",
        "The receiver refused the message.",
        "dbops gives up a message after 3 refusals. The delivery log keeps it.",
        "Check address and token, and the receiver's log. A redirect is not followed. Then test the channel.",
    ),
)

SECTIONS = (CatalogueSection("Notifications", _ENTRIES),)
