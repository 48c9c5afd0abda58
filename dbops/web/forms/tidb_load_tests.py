"""The form of a new load test of a TiDB cluster: inserts into one table, without a scratch server."""

from collections.abc import Mapping
from typing import Any, ClassVar

from django.utils.translation import gettext_lazy as _

from dbops.engine.load_tests.request import Raised
from dbops.engine.phrases import phrase
from dbops.web.forms.load_test_choices import RAISED
from dbops.web.forms.load_tests import LoadTestForm


class TidbLoadTestForm(LoadTestForm):
    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {
        phrase("Cluster"): ("source", "host", "most_minutes"),
        phrase("Inserts"): ("table_ddl", "key_ranges"),
        phrase("Load"): ("raised", "steps", "repeats", "seconds", "warm_up_seconds", "threads", "rate"),
    }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._set_choices("raised", [one for one in RAISED if one[0] in (Raised.THREADS, Raised.RATE)])
        self.fields["source"].label = _("Node that gets the inserts")
        self.fields["host"].help_text = _("Runs the load generator.")
        self.fields["table_ddl"].help_text = _(
            "The table’s name without a schema. It is made in dbops_load and dropped at the end."
        )
