"""The forms that add a channel and a rule of notifications."""

from typing import Any

from django import forms

from dbops.engine.notifications.channels import SERVICES, ChannelKind
from dbops.engine.notifications.events import EVENTS, EventKind, EventSeverity
from dbops.engine.notifications.rules import DAILY_AT, Digest
from dbops.models import Cluster, NotificationChannel

KINDS = [
    (ChannelKind.MESSAGE.value, "Message to a service"),
    (ChannelKind.WEBHOOK.value, "Signed webhook"),
    (ChannelKind.HEARTBEAT.value, "Heartbeat of dbops"),
]
DIGESTS = [
    (Digest.NONE.value, "At once"),
    (Digest.HOURLY.value, "Hourly digest"),
    (Digest.DAILY.value, f"Daily digest at {DAILY_AT:%H:%M}"),
]


class _StyledForm(forms.Form):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"label_suffix": "", **kwargs})
        for field in self.fields.values():
            is_choice = isinstance(field, forms.ChoiceField | forms.ModelChoiceField)
            field.widget.attrs.setdefault("class", "form-select" if is_choice else "form-control")


class ChannelForm(_StyledForm):
    """A channel. Its address and secret are never shown again."""

    name = forms.CharField(label="Name", max_length=60)
    kind = forms.ChoiceField(label="Kind", choices=KINDS)
    address = forms.CharField(
        label="Address",
        max_length=2000,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text="Of a service: one of the forms below. Of a webhook or heartbeat: https://HOST/PATH. Stored encrypted.",
    )
    every_minutes = forms.IntegerField(
        label="Heartbeat interval (minutes)",
        required=False,
        min_value=1,
        max_value=1440,
        help_text="Heartbeat only. Set the receiver to report a silence of three intervals.",
    )
    secret = forms.CharField(
        label="Secret",
        required=False,
        max_length=200,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text="Webhook only. It starts with whsec_. Empty: dbops makes one and shows it once.",
    )
    ca = forms.CharField(
        label="CA certificate (PEM)",
        required=False,
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false"}),
        help_text="Authority of the receiver's certificate. Empty: authorities that the system trusts.",
    )

    services = SERVICES


class RuleForm(_StyledForm):
    """A rule. The events come from the engine's table."""

    name = forms.CharField(label="Name", max_length=60)
    channel = forms.ModelChoiceField(label="Channel", queryset=NotificationChannel.objects.none(), to_field_name="name")
    cluster = forms.ModelChoiceField(
        label="Cluster",
        queryset=Cluster.objects.none(),
        to_field_name="name",
        required=False,
        empty_label="All clusters, and dbops itself",
    )
    minimum = forms.ChoiceField(label="Least severity", choices=[(one.value, one.value) for one in EventSeverity])
    quiet_from = forms.TimeField(
        label="Quiet hours from",
        required=False,
        widget=forms.TimeInput(attrs={"placeholder": "22:00"}),
        help_text="In the dashboard's time zone. Critical events are sent in quiet hours, too.",
    )
    quiet_until = forms.TimeField(
        label="Quiet hours until",
        required=False,
        widget=forms.TimeInput(attrs={"placeholder": "07:00"}),
        help_text="Held events follow then in one message.",
    )
    digest = forms.ChoiceField(
        label="Sent", choices=DIGESTS, help_text="Critical events are sent at once. The weekly report is in no digest."
    )
    events = forms.MultipleChoiceField(
        label="Events",
        choices=[(kind.name, f"{kind.title} ({kind.severity})") for kind in EVENTS.values()],
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
