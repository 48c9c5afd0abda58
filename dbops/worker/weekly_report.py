"""Send the weekly availability report by e-mail, once a week."""

import logging
from datetime import datetime, timedelta

from django.conf import settings
from django.core.mail import EmailMultiAlternatives, get_connection
from django.template.loader import render_to_string
from django.utils import timezone

from dbops.lib.documents import render_document
from dbops.models import SentReport
from dbops.queries.availability.report import FleetReport, fleet_report, last_week

#: Delay after the end of the week, until its last day is counted.
SENT_AFTER = timedelta(hours=6)
#: Number of clusters in the plain text; the HTML has all.
NAMED = 20
log = logging.getLogger(__name__)


def send_report(now: datetime) -> bool:
    """Send the report of the last week if it is due, wanted and not sent yet. Return whether it was sent.

    The report is claimed first, so that only one process sends it. A failed delivery is retried by the next call; if
    the process dies while sending, the report is not sent again.
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
        with get_connection() as connection:  # closed even if the server refuses the account
            connection.send_messages([message])
    except OSError as error:
        # The server's answer may contain addresses and accounts.
        log.warning("the weekly report was not sent; dbops retries: %s", type(error).__name__)
        claim.delete()
        return False
    SentReport.objects.filter(pk=claim.pk).update(sent_at=now)
    return True


def _message(report: FleetReport) -> EmailMultiAlternatives:
    subject = f"Availability of all clusters, {report.span.title}"
    text = render_to_string("availability/weekly.txt", {"report": report, "rows": report.rows[:NAMED]})
    message = EmailMultiAlternatives(subject, text, settings.REPORT_FROM, settings.REPORT_RECIPIENTS)
    html = render_document("availability/report_fleet.html", report=report, is_file=True)
    message.attach_alternative(html, "text/html")
    return message
