"""When workers and beat last reported."""

from datetime import datetime

from dbops.models import Pulse


def pulses() -> dict[str, datetime]:
    """Return the last sign of life by the name of the process; one that never reported is not in it. One query."""
    return dict(Pulse.objects.values_list("name", "at"))
