"""Forms for backup schedules, maintenance and calendar tokens."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, ClassVar
from zoneinfo import available_timezones

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from dbops.database import clock
from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase
from dbops.fleetfile import stored
from dbops.fleetfile.conflicts import InventoryConflict, PlacedObject, name_conflicts
from dbops.fleetfile.schedules import schedule_problems
from dbops.models import AccessToken, BackupSchedule, Cluster, Instance
from dbops.web.forms.inventory_base import InventoryForm
from dbops.web.forms.inventory_fields import MinutesField
from dbops.web.templatetags.phrases import sentence

INSTANCES_IN_A_LIST = 200
METHODS = [
    ("physical", _("Physical (xtrabackup or mariadb-backup, zstd)")),
    ("dump", _("Dump (mysqldump or mariadb-dump, gzip)")),
]
RUN_BY = [("dbops", "dbops"), ("external", _("External cron job"))]


class ScheduleForm(InventoryForm):
    """Schedule, method and retention of an instance's backups."""

    groups: ClassVar = {
        phrase("Backup"): ("name", "instance", "method", "run_by"),
        phrase("When"): ("cron", "time_zone", "expected_seconds", "late_after_seconds", "is_enabled"),
        phrase("Storage and retention"): ("directory", "keep_count", "keep_days"),
    }
    method = forms.ChoiceField(label=_("Method"), choices=METHODS)
    run_by = forms.ChoiceField(choices=RUN_BY, label=_("Started by"))
    expected_seconds = MinutesField(
        label=_("Expected duration (minutes)"),
        required=False,
        min_value=1,
        help_text=_("Your estimate. dbops uses it until the schedule has enough runs of its own."),
    )
    late_after_seconds = MinutesField(
        label=_("Late after (minutes)"),
        min_value=1,
        initial=900,
        help_text=_("Minutes after the due time at which a run that has not started counts as late."),
    )

    class Meta:
        model = BackupSchedule
        fields: ClassVar = [
            *("name", "instance", "method", "run_by", "cron", "time_zone", "expected_seconds", "late_after_seconds"),
            *("is_enabled", "directory", "keep_count", "keep_days"),
        ]
        labels: ClassVar = {
            "cron": _("Cron expression"),
            "is_enabled": _("Enabled"),
            "keep_count": _("Maximum number of backups"),
            "keep_days": _("Maximum age (days)"),
        }
        help_texts: ClassVar = {
            "name": _("Backup reports use this name."),
            "cron": _("Minute, hour, day of month, month, day of week. Example: 30 2 * * * runs every night at 02:30."),
            "time_zone": _("Time zone of the cron expression, for example Europe/Berlin."),
            "directory": _(
                "Path on the instance’s host, outside every data directory. Required if dbops runs the backup."
            ),
            "keep_count": (
                _(
                    "dbops deletes its own backups beyond this number. Leave empty for no limit. "
                    "The newest backup and the newest restore-tested one are always kept."
                )
            ),
            "keep_days": _("Also delete backups older than this many days. Leave empty for no age limit."),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["time_zone"].widget.attrs["list"] = "time-zones"
        self.fields["time_zone"].widget.attrs["autocomplete"] = "off"
        chosen = self.fields["instance"]
        assert isinstance(chosen, forms.ModelChoiceField)  # noqa: S101 - it is a foreign key
        chosen.to_field_name = "name"
        if Instance.objects.count() > INSTANCES_IN_A_LIST:
            # A list of thousands makes the page slow: a text field takes the name.
            chosen.widget = forms.TextInput(attrs={"class": "form-control"})
        if not self.is_new:
            self.initial["instance"] = self.instance.instance.name
            # Runs and their reports refer to these two fields.
            self.fields["name"].disabled = self.fields["instance"].disabled = True

    @property
    def time_zones(self) -> list[str]:
        return sorted(name for name in available_timezones() if "/" in name or name == "UTC")

    def clean_together(self, given: dict[str, Any]) -> None:
        instance = given.get("instance")
        datadirs = stored.load().datadirs_on_host_of(instance) if isinstance(instance, Instance) else {}
        for name, text in schedule_problems(given, datadirs):
            self.add_error(name, sentence(text))

    def conflicts(self, given: dict[str, Any]) -> Iterator[InventoryConflict]:
        others = BackupSchedule.objects.exclude(pk=self.instance.pk).values_list("name", flat=True)
        yield from name_conflicts(
            [*map(PlacedObject, others), PlacedObject(given.get("name", ""), None, self)], "schedule"
        )


class MaintenanceForm(forms.Form):
    """Maintenance of a cluster, during which no rebuild starts. Times are in the page's zone."""

    starts_at = forms.DateTimeField(label=_("Start"), required=False, help_text=_("Empty: now."))
    ends_at = forms.DateTimeField(label=_("End"), required=False, help_text=_("Empty: until ended by a person."))
    reason = forms.CharField(label=_("Reason"), max_length=300)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"label_suffix": "", **kwargs})
        for name in ("starts_at", "ends_at"):
            self.fields[name].widget = forms.DateTimeInput(
                attrs={"type": "datetime-local", "class": "form-control"}, format="%Y-%m-%dT%H:%M"
            )
        self.fields["reason"].widget.attrs["class"] = "form-control"

    def add_refusal(self, error: Refused, text: str) -> None:
        """Show a refusal above the form, with the code of its first problem."""
        code = (error.audit_detail.get("problems") or [error.code])[0]
        self.add_error(None, ValidationError(text, code=code))

    def clean_starts_at(self) -> datetime:
        return self.cleaned_data["starts_at"] or clock.now()


class MarkForm(MaintenanceForm):
    """Past maintenance that was planned."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("starts_at", "ends_at"):
            self.fields[name].required = True
            self.fields[name].help_text = ""


class TokenForm(forms.ModelForm):
    """An access token for calendar feeds."""

    cluster = forms.ModelChoiceField(
        Cluster.objects.all(), label=_("Cluster"), required=False, empty_label=_("All clusters")
    )

    class Meta:
        model = AccessToken
        fields: ClassVar = ["name", "cluster"]
        labels: ClassVar = {"name": _("Name")}
        help_texts: ClassVar = {"name": _("For example the name of the calendar. The audit log shows this name.")}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"label_suffix": "", **kwargs})
        self.fields["name"].widget.attrs["class"] = "form-control"
        self.fields["cluster"].widget.attrs["class"] = "form-select"
