"""Steps of dbops's clock."""

from django.db import models


class ClockStep(models.Model):
    """The clock was set, as seen by one process: it would have shown ``before`` when it showed ``at``."""

    before = models.DateTimeField()
    at = models.DateTimeField()

    @property
    def seconds(self) -> float:
        """How far it was set; negative: back."""
        return float((self.at - self.before).total_seconds())
