"""The form of a new load test: what a person chooses, and the request that it makes."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import urlencode

from django import forms
from django.core.exceptions import ValidationError
from django.forms.boundfield import BoundField
from django.http import QueryDict
from django.utils.functional import cached_property
from django.utils.translation import gettext_lazy as _

from dbops.engine.errors import Refused
from dbops.engine.flavors.prepare import MIB
from dbops.engine.load_tests import request as limits
from dbops.engine.load_tests.digest_facts import SourceDigests
from dbops.engine.load_tests.generator import input_text
from dbops.engine.load_tests.request import LoadTestRequest, Raised
from dbops.engine.load_tests.workload import Profile, Workload
from dbops.engine.phrases import phrase
from dbops.queries.digests import digests_of, find_digest_reading
from dbops.queries.load_test_pages import LoadTestChoices
from dbops.web.forms.load_test_choices import PRESETS, PROFILES, RAISED, Options, preset
from dbops.web.forms.load_test_texts import LongTexts, read_statements
from dbops.web.refusal_texts import cause_of
from dbops.web.templatetags.phrases import translated

NEWEST = "newest"
#: Largest file of statements.
MOST_FILE_BYTES = 8 * MIB


class LoadTestForm(forms.Form):
    """The choices of a load test. All but the long texts are in the URL of its plan."""

    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {
        phrase("Scratch server"): ("source", "backup", "host", "generator_host", "pool_mib", "options", "most_minutes"),
        phrase("Load"): (
            "profile",
            "raised",
            "steps",
            "repeats",
            "seconds",
            "warm_up_seconds",
            "threads",
            "rate",
            "schemas",
        ),
        phrase("Tables of sysbench"): ("tables", "table_rows"),
        phrase("Rotating schemas"): (
            "schema",
            "row_percent",
            "seconds_on_schema",
            "digests",
            "statements",
            "statements_file",
        ),
        phrase("Inserts"): ("table_ddl", "key_ranges"),
        phrase("A/B test"): ("preset", "options_a", "options_b", "most_pairs", "aa_pairs"),
    }
    LONG: ClassVar = ("statements", "statements_file", "table_ddl")

    source = forms.ChoiceField(label=_("Settings and version of"))
    backup = forms.ChoiceField(
        label=_("Data"),
        initial=NEWEST,
        help_text=_("A backup of this instance is restored, or the server is made empty."),
    )
    host = forms.ChoiceField(label=_("Host"), help_text=_("Runs the scratch server."))
    generator_host = forms.ChoiceField(
        label=_("Load generator’s host"),
        required=False,
        help_text=_(
            "Another host leaves the CPU to the server, but adds the latency of an SSH connection to each statement."
        ),
    )
    pool_mib = forms.IntegerField(label=_("Buffer pool (MiB)"), initial=1024, min_value=64, max_value=2**20)
    options = forms.CharField(
        label=_("Further server options"),
        required=False,
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text=_("One name=value on each line. They replace the source’s."),
    )
    most_minutes = forms.IntegerField(label=_("Ends after (minutes)"), initial=240, min_value=1, max_value=7 * 1440)

    profile = forms.ChoiceField(label=_("Statements"), choices=PROFILES, initial=Profile.READ_WRITE)
    raised = forms.ChoiceField(label=_("Raised from step to step"), choices=RAISED, initial=Raised.THREADS)
    steps = forms.CharField(
        label=_("Steps"),
        initial="1, 2, 4, 8",
        max_length=300,
        required=False,
        help_text=_("For example 150, 300, 600, 1200."),
    )
    repeats = forms.IntegerField(
        label=_("Rounds of each step"),
        initial=3,
        min_value=1,
        max_value=limits.MOST_REPEATS,
        help_text=_("A knee needs at least 3."),
    )
    seconds = forms.IntegerField(
        label=_("Seconds of a round"), initial=30, min_value=limits.LEAST_SECONDS, max_value=limits.MOST_SECONDS
    )
    warm_up_seconds = forms.IntegerField(
        label=_("Warm-up before each (s)"), initial=5, min_value=0, max_value=limits.MOST_SECONDS
    )
    threads = forms.IntegerField(
        label=_("Threads"),
        initial=8,
        min_value=1,
        max_value=limits.MOST_THREADS,
        help_text=_("Where they are not raised."),
    )
    rate = forms.IntegerField(
        label=_("Events a second"), initial=0, min_value=0, max_value=10_000_000, help_text=_("0: as fast as possible.")
    )
    schemas = forms.IntegerField(
        label=_("Schemas"),
        initial=0,
        min_value=0,
        max_value=limits.MOST_SCHEMAS,
        help_text=_("For rotating schemas, where they are not raised."),
    )
    tables = forms.IntegerField(label=_("Tables"), initial=4, min_value=1, max_value=1000)
    table_rows = forms.IntegerField(label=_("Rows of each"), initial=100_000, min_value=1, max_value=1_000_000_000)
    schema = forms.CharField(
        label=_("Schema to copy"),
        required=False,
        max_length=64,
        help_text=_("A schema of the backup. It is copied, not changed."),
    )
    row_percent = forms.FloatField(label=_("Rows in each copy (%)"), initial=0.0, min_value=0, max_value=100)
    seconds_on_schema = forms.FloatField(
        label=_("Seconds on each schema"),
        initial=5.0,
        min_value=0.001,
        max_value=3600,
        help_text=_("Then a thread takes the next one. A short time shows the wall in seconds."),
    )
    digests = forms.ChoiceField(
        label=_("Top statements"),
        required=False,
        help_text=_("Of the source, with values sampled from the restored data. They replace the statements below."),
    )
    statements = forms.CharField(
        label=_("Statements"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 5}),
        help_text=(
            _(
                "One on each line, with values in place and without schema names; or JSON Lines: "
                '{"statement": "SELECT …", "count": 120}. Counts set the proportions.'
            )
        ),
    )
    statements_file = forms.FileField(label=_("Or a file with statements"), required=False)
    table_ddl = forms.CharField(
        label=_("CREATE TABLE statement"), required=False, max_length=60_000, widget=forms.Textarea(attrs={"rows": 5})
    )
    key_ranges = forms.CharField(
        label=_("Random keys"),
        required=False,
        max_length=1000,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text=_("Column, lowest and highest value on each line: id 1 1000000000."),
    )
    preset = forms.ChoiceField(label=_("Compare"), choices=PRESETS, required=False)
    options_a = forms.CharField(
        label=_("Options of A"), required=False, max_length=1000, widget=forms.Textarea(attrs={"rows": 2})
    )
    options_b = forms.CharField(
        label=_("Options of B"), required=False, max_length=1000, widget=forms.Textarea(attrs={"rows": 2})
    )
    most_pairs = forms.IntegerField(
        label=_("Most pairs"), initial=12, min_value=limits.LEAST_PAIRS, max_value=limits.MOST_PAIRS
    )
    aa_pairs = forms.IntegerField(
        label=_("A/A pairs"),
        initial=4,
        min_value=limits.LEAST_AA_PAIRS,
        max_value=limits.MOST_PAIRS,
        help_text=_("Rounds with equal options: they show how much this machine varies on its own."),
    )

    def __init__(
        self, choices: LoadTestChoices, given: QueryDict, files: Any = None, *, kept: LongTexts | None = None
    ) -> None:
        self.choices, self.kept = choices, kept or LongTexts()
        super().__init__(_filled(choices, given), files, label_suffix="")
        self._set_choices("source", [(one.name, f"{one.name} ({translated(one.role)})") for one in choices.sources])
        self._set_choices("host", [(one.name, one.name) for one in choices.hosts])
        self._set_choices(
            "generator_host", [("", _("The same host")), *((one.name, one.name) for one in choices.hosts)]
        )
        times = [(one.pk, f"{one.finished_at:%Y-%m-%d %H:%M}") for one in choices.backups]
        runs = [(str(run), _("Run %(number)s, %(time)s UTC") % {"number": run, "time": time}) for run, time in times]
        newest = [(NEWEST, _("Newest good backup"))] if choices.run else []
        self._set_choices("backup", [*newest, *runs, ("0", _("None: an empty server"))])
        readings = [
            (str(one.pk), f"{one.instance.name}, {one.schema}, {one.requested_at:%Y-%m-%d %H:%M} UTC")
            for one in choices.digest_readings
        ]
        self._set_choices("digests", [("", _("None")), *readings])
        for name, field in self.fields.items():
            is_choice = isinstance(field, forms.ChoiceField)
            field.widget.attrs["class"] = "form-select" if is_choice else "form-control"
            if name == "table_ddl" and self.kept.table_ddl:
                field.initial = self.kept.table_ddl

    def _set_choices(self, name: str, choices: Sequence[tuple[str, Any]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101 - by its class above
        field.choices = choices

    @property
    def sections(self) -> Iterator[tuple[str, list[BoundField], bool]]:
        """Return title and fields of each group, and whether it matters for the chosen load."""
        profile, raised = str(self.data.get("profile", "")), str(self.data.get("raised", ""))
        matters = {
            "Tables of sysbench": profile not in (Profile.ROTATING, Profile.INSERT),
            "Rotating schemas": profile == Profile.ROTATING,
            "Inserts": profile == Profile.INSERT,
            "A/B test": raised == Raised.NOTHING,
        }
        for title, names in self.groups.items():
            has_error = any(name in self.errors for name in names)
            yield translated(title), [self[name] for name in names], matters.get(title, True) or has_error

    @property
    def query(self) -> dict[str, str]:
        """Return the choices that differ from the defaults, for the URL of the plan. The source decides about some defaults."""
        usual = _filled(self.choices, QueryDict())
        found = {
            name: str(self.data.get(name, "")).replace("\r\n", "\n") for name in self.fields if name not in self.LONG
        }
        return {name: value for name, value in found.items() if name == "source" or value != usual[name]}

    @property
    def query_text(self) -> str:
        return urlencode(self.query)

    def clean_steps(self) -> tuple[int, ...]:
        parts = [part for part in re.split(r"[\s,;]+", self.cleaned_data["steps"].strip()) if part]
        if not all(re.fullmatch(r"[0-9]{1,9}", part) for part in parts):
            raise ValidationError(_("Enter whole numbers, separated by commas."))
        return tuple(sorted({int(part) for part in parts}))

    def clean_options(self) -> Options:
        return _options(self.cleaned_data["options"])

    def clean_options_a(self) -> Options:
        return _options(self.cleaned_data["options_a"])

    def clean_options_b(self) -> Options:
        return _options(self.cleaned_data["options_b"])

    def clean_key_ranges(self) -> tuple[tuple[str, int, int], ...]:
        found = []
        for line in filter(None, map(str.strip, self.cleaned_data["key_ranges"].splitlines())):
            match = re.fullmatch(r"(\S+)\s+(-?[0-9]{1,20})\s+(-?[0-9]{1,20})", line)
            if not match:
                raise ValidationError(_("Enter a column and two whole numbers on each line."))
            found.append((match[1], int(match[2]), int(match[3])))
        return tuple(found)

    def clean_statements(self) -> tuple[str, ...]:
        return read_statements(self.cleaned_data["statements"])

    def clean_statements_file(self) -> tuple[str, ...]:
        file = self.cleaned_data["statements_file"]
        if not file:
            return ()
        if file.size > MOST_FILE_BYTES:
            raise ValidationError(_("The file is larger than %(size)s MiB.") % {"size": MOST_FILE_BYTES // MIB})
        try:
            return read_statements(file.read().decode())
        except UnicodeDecodeError as error:
            raise ValidationError(_("The file is not text in UTF-8.")) from error

    @cached_property
    def source_digests(self) -> SourceDigests | None:
        """Return the chosen reading. It never changes, so that what was shown is what is confirmed. One query."""
        given = self.cleaned_data
        if given["profile"] != Profile.ROTATING or not given.get("digests"):
            return None
        return digests_of(find_digest_reading(given["digests"], cluster_id=self.choices.cluster.pk))

    def clean(self) -> dict[str, Any]:
        """Check the workload as the load generator reads it, so that no test fails for it an hour later."""
        given: dict[str, Any] = super().clean() or self.cleaned_data
        if not self.errors:
            try:
                workload = self.workload(self.long_texts())
                # Without statements the request itself is refused, with every reason at once.
                if workload.statements or workload.table_ddl:
                    input_text(workload)
            except Refused as error:
                field = "table_ddl" if error.code == "load_test.table" else "statements"
                self.add_error(field, ValidationError(cause_of(error), code=error.code))
        return given

    def long_texts(self) -> LongTexts:
        """Return the texts of this form, or else those kept from before. Only those that the chosen statements need."""
        given, profile = self.cleaned_data, self.cleaned_data["profile"]
        if profile == Profile.ROTATING:
            if given.get("digests"):
                return LongTexts()
            return LongTexts(given["statements_file"] or given["statements"] or self.kept.statements)
        if profile == Profile.INSERT:
            return LongTexts(table_ddl=given["table_ddl"] or self.kept.table_ddl)
        return LongTexts()

    def workload(self, texts: LongTexts) -> Workload:
        given = self.cleaned_data
        return Workload(
            Profile(given["profile"]),
            tables=given["tables"],
            table_rows=given["table_rows"],
            schema=given["schema"] or (self.source_digests.schema if self.source_digests else ""),
            row_share=given["row_percent"] / 100,
            seconds_on_schema=given["seconds_on_schema"],
            statements=texts.statements,
            digests=self.source_digests,
            table_ddl=texts.table_ddl,
            key_ranges=given["key_ranges"] if given["profile"] == Profile.INSERT else (),
        )

    def request(self, flavor: str) -> LoadTestRequest:
        """Return the request of a valid form. ``flavor``: of the source, for the names of ready-made options."""
        given = self.cleaned_data
        raised = Raised(given["raised"])
        arms = preset(given["preset"], flavor) if given["preset"] else (given["options_a"], given["options_b"])
        options_a, options_b = arms if raised is Raised.NOTHING else ((), ())
        return LoadTestRequest(
            source=given["source"],
            host=given["host"],
            generator_host=given["generator_host"] if given["generator_host"] != given["host"] else "",
            workload=self.workload(self.long_texts()),
            run=self.choices.run if given["backup"] == NEWEST else int(given["backup"]),
            raised=raised,
            steps=given["steps"],
            repeats=given["repeats"],
            threads=given["threads"],
            rate=given["rate"],
            schemas=given["schemas"],
            seconds=given["seconds"],
            warm_up_seconds=given["warm_up_seconds"],
            pool_bytes=given["pool_mib"] * MIB,
            options=given["options"],
            options_a=options_a,
            options_b=options_b,
            most_pairs=given["most_pairs"],
            aa_pairs=given["aa_pairs"],
            most_seconds=given["most_minutes"] * 60,
        )


def _options(text: str) -> Options:
    """Read server options, one ``name=value`` on each line; dashes in names are as good as underscores."""
    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        name, sign, value = line.removeprefix("--").partition("=")
        if not sign:
            raise ValidationError(_("Enter one name=value on each line."))
        found.append((name.strip().replace("-", "_"), value.strip()))
    return tuple(found)


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _filled(choices: LoadTestChoices, given: QueryDict) -> QueryDict:
    """Return the given choices, with the defaults where nothing was given."""
    data = QueryDict(mutable=True)
    for name, field in LoadTestForm.base_fields.items():
        data[name] = _text(field.initial)
    data["source"] = choices.source.name if choices.source else ""
    data["host"] = choices.host.name if choices.host else ""
    if not choices.run:
        data["backup"] = "0"
    for name in given:
        if name in data:
            data[name] = str(given[name]).replace("\0", "")
    if choices.is_tidb:
        data["profile"], data["backup"] = Profile.INSERT.value, "0"
    return data
