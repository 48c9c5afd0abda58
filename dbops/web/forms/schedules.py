"""Forms about backups: a schedule, maintenance of a cluster, a token."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, ClassVar
from zoneinfo import available_timezones

from django import forms
from django.core.exceptions import ValidationError
from django.utils import timezone

from dbops.engine.errors import Refused
from dbops.fleetfile import stored
from dbops.fleetfile.conflicts import InventoryConflict, PlacedObject, name_conflicts
from dbops.fleetfile.schedules import schedule_problems
from dbops.models import AccessToken, BackupSchedule, Cluster, Instance
from dbops.web.forms.inventory import InventoryForm, MinutesField, sentence

INSTANCES_IN_A_LIST = 200
METHODS = [
    ("physical", "physical: xtrabackup or mariadb-backup, with zstd"),
    ("dump", "dump: mysqldump or mariadb-dump, with gzip"),
]
RUN_BY = [("dbops", "dbops starts it"), ("external", "somebody else's cron starts it; dbops only watches")]


class ScheduleForm(InventoryForm):
    """When an instance is backed up, by whom, and what is kept."""

    groups: ClassVar = {
        "Backup": ("name", "instance", "method", "run_by"),
        "When": ("cron", "time_zone", "expected_seconds", "late_after_seconds", "is_enabled"),
        "Where, and what is kept": ("directory", "keep_count", "keep_days"),
    }
    method = forms.ChoiceField(choices=METHODS)
    run_by = forms.ChoiceField(choices=RUN_BY, label="Run by")
    expected_seconds = MinutesField(
        label="Expected duration (minutes)",
        required=False,
        min_value=1,
        help_text="What you expect. It counts until the schedule's own runs say better.",
    )
    late_after_seconds = MinutesField(
        label="Late after (minutes)",
        min_value=1,
        initial=900,
        help_text="A run that has not begun so long after its due time is flagged as late.",
    )

    class Meta:
        model = BackupSchedule
        fields: ClassVar = [
            *("name", "instance", "method", "run_by", "cron", "time_zone", "expected_seconds", "late_after_seconds"),
            *("is_enabled", "directory", "keep_count", "keep_days"),
        ]
        labels: ClassVar = {
            "cron": "Cron expression",
            "is_enabled": "Switched on",
            "keep_count": "Maximum number of backups",
            "keep_days": "Maximum age (days)",
        }
        help_texts: ClassVar = {
            "name": "Reports of backups name it.",
            "cron": "Minute, hour, day of the month, month, day of the week: 30 2 * * * is every night at 02:30.",
            "time_zone": "The one in which the expression is meant, for example Europe/Berlin.",
            "directory": "On the instance's host, outside every data directory. Needed where dbops runs the backup.",
            "keep_count": (
                "dbops deletes its own backups beyond this number. Leave empty for no limit. "
                "The newest backup and the newest restore-tested one are always kept."
            ),
            "keep_days": "Also delete backups older than this many days. Leave empty for no age limit.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["time_zone"].widget.attrs["list"] = "time-zones"
        self.fields["time_zone"].widget.attrs["autocomplete"] = "off"
        chosen = self.fields["instance"]
        assert isinstance(chosen, forms.ModelChoiceField)  # noqa: S101 - it is a foreign key
        chosen.to_field_name = "name"
        if Instance.objects.count() > INSTANCES_IN_A_LIST:
            # Thousands of choices are no choice, and make the page heavy: its name is typed.
            chosen.widget = forms.TextInput(attrs={"class": "form-control"})
        if not self.is_new:
            self.initial["instance"] = self.instance.instance.name
            # Its runs and their reports go by these two.
            self.fields["name"].disabled = self.fields["instance"].disabled = True

    @property
    def time_zones(self) -> list[str]:
        return sorted(name for name in available_timezones() if "/" in name or name == "UTC")

    def clean_together(self, given: dict[str, Any]) -> None:
        instance = given.get("instance")
        beside = stored.load().datadirs_beside(instance) if isinstance(instance, Instance) else {}
        for name, text in schedule_problems(given, beside):
            self.add_error(name, sentence(text))

    def conflicts(self, given: dict[str, Any]) -> Iterator[InventoryConflict]:
        others = BackupSchedule.objects.exclude(pk=self.instance.pk).values_list("name", flat=True)
        yield from name_conflicts(
            [*map(PlacedObject, others), PlacedObject(given.get("name", ""), None, self)], "schedule"
        )


class MaintenanceForm(forms.Form):
    """When no rebuild of a cluster may start. Times are in the page's zone."""

    starts_at = forms.DateTimeField(label="From", required=False, help_text="Empty: now.")
    ends_at = forms.DateTimeField(label="Until", required=False, help_text="Empty: until somebody ends it.")
    reason = forms.CharField(label="Why", max_length=300)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"label_suffix": "", **kwargs})
        for name in ("starts_at", "ends_at"):
            self.fields[name].widget = forms.DateTimeInput(
                attrs={"type": "datetime-local", "class": "form-control"}, format="%Y-%m-%dT%H:%M"
            )
        self.fields["reason"].widget.attrs["class"] = "form-control"

    def add_refusal(self, error: Refused, text: str) -> None:
        """Show a refusal above the form. Its code is that of the first problem."""
        code = (error.told.get("problems") or [error.code])[0]
        self.add_error(None, ValidationError(text, code=code))

    def clean_starts_at(self) -> datetime:
        return self.cleaned_data["starts_at"] or timezone.now()


class MarkForm(MaintenanceForm):
    """A time that has passed and was planned."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("starts_at", "ends_at"):
            self.fields[name].required = True
            self.fields[name].help_text = ""


class TokenForm(forms.ModelForm):
    """A token that lets a calendar read the backup windows."""

    cluster = forms.ModelChoiceField(
        Cluster.objects.all(), label="Which windows", required=False, empty_label="of every cluster"
    )

    class Meta:
        model = AccessToken
        fields: ClassVar = ["name", "cluster"]
        labels: ClassVar = {"name": "Name"}
        help_texts: ClassVar = {"name": "For example where the calendar is: it stands in the audit log."}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"label_suffix": "", **kwargs})
        self.fields["name"].widget.attrs["class"] = "form-control"
        self.fields["cluster"].widget.attrs["class"] = "form-select"
