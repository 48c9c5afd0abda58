"""Read whether an instance could run without doublewrite, for its page."""

from dbops.engine.facts.instance import InstanceFacts, from_record
from dbops.engine.tuning.doublewrite import DoublewriteAdvice, judge_doublewrite
from dbops.models import Instance, InstanceState


def doublewrite_of(instance: Instance) -> DoublewriteAdvice | None:
    """Return the advice, ``None`` if the server was not read. One query."""
    rows = InstanceState.objects.filter(instance__cluster=instance.cluster_id).values_list("instance__name", "record")
    return judge_doublewrite(
        instance.name, {name: from_record(InstanceFacts, record) for name, record in rows if record}
    )
