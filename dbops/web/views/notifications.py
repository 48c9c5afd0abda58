"""Notifications: channels, rules and the delivery log. For superusers, because a channel sends data to another system."""

from typing import Any

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from dbops.engine.errors import Refused
from dbops.models import NotificationChannel, NotificationDelivery, NotificationRule
from dbops.operations import notification_channels, notification_rules
from dbops.queries.notifications.channels import channels, deliveries, rules
from dbops.web.decorators import superuser_page, user_of
from dbops.web.forms.notifications import ChannelForm, RuleForm
from dbops.web.refusal_texts import refusal_text


@require_GET
@never_cache
@superuser_page
def page(request: HttpRequest) -> HttpResponse:
    """List channels and rules."""
    return _list(request)


@sensitive_post_parameters("address", "secret")
@require_http_methods(["GET", "POST"])
@never_cache
@superuser_page
def add_channel(request: HttpRequest) -> HttpResponse:
    """Show the form; add a channel on POST, and show the secret that dbops made once."""
    form = ChannelForm(request.POST if request.method == "POST" else None)
    if form.is_bound and form.is_valid():
        try:
            channel, secret = notification_channels.add_channel(actor=_actor(request), **form.cleaned_data)
        except Refused as error:
            _refuse(form, error)
        else:
            messages.success(request, _("Channel %(channel)s added.") % {"channel": channel.name})
            return _list(request, made=channel.name, secret=secret) if secret else redirect("notifications")
    return render(request, "notifications/channel_add.html", {"form": form}, status=422 if form.errors else 200)


@require_http_methods(["GET", "POST"])
@never_cache
@superuser_page
def remove_channel(request: HttpRequest, channel_id: int) -> HttpResponse:
    """Ask for confirmation; remove a channel with its rules on POST."""
    name = _name(channel_id)
    if request.method == "POST":
        notification_channels.remove_channel(actor=_actor(request), name=name)
        messages.success(request, _("Channel %(name)s removed.") % {"name": name})
        return redirect("notifications")
    rules_of = NotificationRule.objects.filter(channel=channel_id).order_by("name")
    return render(request, "notifications/channel_remove.html", {"name": name, "rules": rules_of})


@require_POST
@superuser_page
def test(request: HttpRequest, channel_id: int) -> HttpResponse:
    """Send a test message to a channel."""
    name = _name(channel_id)
    notification_channels.test_channel(actor=_actor(request), name=name)
    messages.success(request, _("Test of %(name)s queued. The table shows its result.") % {"name": name})
    return redirect("notifications")


@require_http_methods(["GET", "POST"])
@never_cache
@superuser_page
def rotate(request: HttpRequest, channel_id: int) -> HttpResponse:
    """Ask for confirmation; give a webhook a new secret on POST, and show it once."""
    name = _name(channel_id)
    if request.method == "POST":
        secret, until = notification_channels.rotate_secret(actor=_actor(request), name=name)
        return _list(request, made=name, secret=secret, until=until)
    return render(request, "notifications/secret_rotate.html", {"name": name})


@require_http_methods(["GET", "POST"])
@never_cache
@superuser_page
def add_rule(request: HttpRequest) -> HttpResponse:
    """Show the form; add a rule on POST."""
    form = RuleForm(request.POST if request.method == "POST" else None)
    if form.is_bound and form.is_valid():
        try:
            rule = notification_rules.add_rule(actor=_actor(request), **form.values)
        except Refused as error:
            _refuse(form, error)
        else:
            messages.success(request, _("Rule %(rule)s added.") % {"rule": rule.name})
            return redirect("notifications")
    return render(request, "notifications/rule_add.html", {"form": form}, status=422 if form.errors else 200)


@require_http_methods(["GET", "POST"])
@never_cache
@superuser_page
def remove_rule(request: HttpRequest, rule_id: int) -> HttpResponse:
    """Ask for confirmation; remove a rule on POST."""
    rule = get_object_or_404(NotificationRule, pk=rule_id)
    if request.method == "POST":
        notification_rules.remove_rule(actor=_actor(request), name=rule.name)
        messages.success(request, _("Rule %(rule)s removed.") % {"rule": rule.name})
        return redirect("notifications")
    return render(request, "notifications/rule_remove.html", {"name": rule.name})


@require_GET
@never_cache
@superuser_page
def log(request: HttpRequest) -> HttpResponse:
    """Show the delivery log, newest first."""
    channel, status = (request.GET.get(name, "").replace("\0", "")[:60] for name in ("channel", "status"))
    context = {
        "page": deliveries(request.GET.get("page", 1), channel=channel, status=status),
        "channel": channel,
        "status": status,
        "names": NotificationChannel.objects.order_by("name").values_list("name", flat=True),
        "statuses": NotificationDelivery.Statuses.values,
    }
    return render(request, "notifications/log.html", context)


def _list(request: HttpRequest, **more: Any) -> HttpResponse:
    return render(request, "notifications/list.html", {"channels": channels(), "rules": rules(), **more})


def _refuse(form: ChannelForm | RuleForm, error: Refused) -> None:
    form.add_error(None, ValidationError(refusal_text(error), code=error.code))


def _actor(request: HttpRequest) -> str:
    return user_of(request).get_username()


def _name(channel_id: int) -> str:
    return get_object_or_404(NotificationChannel.objects.only("name"), pk=channel_id).name
