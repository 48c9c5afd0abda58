"""The weekly e-mail about availability: all clusters in the week that is over, once for each week."""

import logging
from datetime import datetime, timedelta

from django.conf import settings
from django.core.mail import EmailMultiAlternatives, get_connection
from django.template.loader import render_to_string
from django.utils import timezone

from dbops.lib.pdf import document
from dbops.models import SentReport
from dbops.queries.availability.report import FleetReport, fleet_report, last_week

#: So long after the week's end: its last day is counted by then.
SENT_AFTER = timedelta(hours=6)
#: Clusters that the plain text names; the HTML has all.
NAMED = 20
log = logging.getLogger(__name__)


def send_report(now: datetime) -> bool:
    """Send the report of the last week, where it is due, wanted, and was not sent yet. Return whether it was.

    It is claimed first: who comes at the same moment finds it taken. What the mail server did not take is given back for the next
    call; where the process dies meanwhile it is not sent again.
    """
    monday, span = last_week(now, timezone.get_current_timezone())
    if not settings.REPORT_RECIPIENTS or now < span.period.end + SENT_AFTER:
        return False
    if SentReport.objects.filter(monday=monday).exists():
        return False
    message = _message(fleet_report(span, now))
    claim, is_new = SentReport.objects.get_or_create(monday=monday, defaults={"claimed_at": now})
    if not is_new:
        return False
    try:
        with get_connection() as connection:  # which is closed, too, where the server refuses the account
            connection.send_messages([message])
    except OSError as error:
        # What a server answers may repeat addresses and accounts.
        log.warning("the weekly report was not sent, and is tried again: %s", type(error).__name__)
        claim.delete()
        return False
    SentReport.objects.filter(pk=claim.pk).update(sent_at=now)
    return True


def _message(report: FleetReport) -> EmailMultiAlternatives:
    subject = f"Availability of all clusters in {report.span.title}"
    text = render_to_string("availability/weekly.txt", {"report": report, "rows": report.rows[:NAMED]})
    message = EmailMultiAlternatives(subject, text, settings.REPORT_FROM, settings.REPORT_RECIPIENTS)
    html = document("availability/report_fleet.html", report=report, stands_alone=True)
    message.attach_alternative(html, "text/html")
    return message
