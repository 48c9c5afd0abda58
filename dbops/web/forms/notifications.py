"""The forms that add a channel and a rule of notifications."""

from typing import Any

from django import forms
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from dbops.engine.notifications.channels import SERVICES, ChannelKind
from dbops.engine.notifications.events import EVENTS, EventKind, EventSeverity
from dbops.engine.notifications.rules import DAILY_AT, DigestInterval
from dbops.models import Cluster, NotificationChannel
from dbops.web.forms.add_form import AddForm

KINDS = [
    (ChannelKind.MESSAGE.value, _("Message to a service")),
    (ChannelKind.WEBHOOK.value, _("Signed webhook")),
    (ChannelKind.HEARTBEAT.value, _("Heartbeat of dbops")),
]
DIGESTS = [
    (DigestInterval.NONE.value, _("At once")),
    (DigestInterval.HOURLY.value, _("Hourly digest")),
    (DigestInterval.DAILY.value, format_lazy(_("Daily digest at {time}"), time=f"{DAILY_AT:%H:%M}")),
]


class ChannelForm(AddForm):
    """A channel. Its address and secret are never shown again."""

    secrets = ("address", "secret")

    name = forms.CharField(label=_("Name"), max_length=60)
    kind = forms.ChoiceField(label=_("Kind"), choices=KINDS)
    address = forms.CharField(
        label=_("Address"),
        max_length=2000,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text=_(
            "Of a service: one of the forms below. Of a webhook or heartbeat: https://HOST/PATH. Stored encrypted."
        ),
    )
    secret = forms.CharField(
        label=_("Secret"),
        required=False,
        max_length=200,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text=_("Webhook only. It starts with whsec_. Empty: dbops makes one and shows it once."),
    )
    every_minutes = forms.IntegerField(
        label=_("Heartbeat interval (minutes)"),
        required=False,
        min_value=1,
        max_value=1440,
        help_text=_("Heartbeat only. Set the receiver to report a silence of three intervals."),
    )
    ca = forms.CharField(
        label=_("CA certificate (PEM)"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false"}),
        help_text=_("Authority of the receiver's certificate. Empty: authorities that the system trusts."),
    )

    services = SERVICES


class RuleForm(AddForm):
    """A rule. The events come from the engine's table."""

    name = forms.CharField(label=_("Name"), max_length=60)
    channel = forms.ModelChoiceField(
        label=_("Channel"), queryset=NotificationChannel.objects.none(), to_field_name="name"
    )
    cluster = forms.ModelChoiceField(
        label=_("Cluster"),
        queryset=Cluster.objects.none(),
        to_field_name="name",
        required=False,
        empty_label=_("All clusters, and dbops itself"),
    )
    minimum = forms.ChoiceField(label=_("Least severity"), choices=[(one.value, _(one.value)) for one in EventSeverity])
    quiet_from = forms.TimeField(
        label=_("Quiet hours from"),
        required=False,
        widget=forms.TimeInput(attrs={"placeholder": "22:00"}),
        help_text=_("In the dashboard's time zone. Critical events are sent in quiet hours, too."),
    )
    quiet_until = forms.TimeField(
        label=_("Quiet hours until"),
        required=False,
        widget=forms.TimeInput(attrs={"placeholder": "07:00"}),
        help_text=_("Held events follow then in one message."),
    )
    digest = forms.ChoiceField(
        label=_("Sent"),
        choices=DIGESTS,
        help_text=_("Critical events are sent at once. The weekly report is in no digest."),
    )
    events = forms.MultipleChoiceField(
        label=_("Events"),
        choices=[(kind.name, format_lazy("{} ({})", _(kind.title), _(kind.severity))) for kind in EVENTS.values()],
        initial=list(EVENTS),
        widget=forms.CheckboxSelectMultiple(attrs={"class": "form-check-input"}),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        targets = NotificationChannel.objects.exclude(kind=ChannelKind.HEARTBEAT).defer(
            "address", "secret", "old_secret"
        )
        for name, rows in (("channel", targets.order_by("name")), ("cluster", Cluster.objects.order_by("name"))):
            field = self.fields[name]
            assert isinstance(field, forms.ModelChoiceField)  # noqa: S101 - declared above
            field.queryset = rows

    @property
    def boxes(self) -> list[tuple[EventKind, Any]]:
        """Each event with its checkbox."""
        return list(zip(EVENTS.values(), self["events"], strict=True))

    @property
    def fields_above(self) -> list[Any]:
        """The fields without the events."""
        return [self[name] for name in self.fields if name != "events"]

    @property
    def values(self) -> dict[str, Any]:
        """The arguments of ``add_rule``."""
        found = dict(self.cleaned_data)
        cluster = found["cluster"]
        return {**found, "channel": found["channel"].name, "cluster": cluster.name if cluster else ""}
