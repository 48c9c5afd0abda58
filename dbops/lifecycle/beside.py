"""A backup that dbops did not start, on an instance that a rebuild uses: nobody could hold it back, so both are told."""

from dbops.engine.methods import method_named
from dbops.engine.schedule.conflicts import meaning_alongside
from dbops.engine.states import BackupMethod, Level
from dbops.lifecycle.events import announce_later, log_event
from dbops.models import BackupRun, Hold


def log_overlap(run: BackupRun) -> None:
    """Log an event on both jobs when an external backup overlaps a rebuild. One query without a rebuild."""
    holds = Hold.objects.select_related("rebuild", "instance").filter(rebuild__isnull=False)
    hold = holds.filter(instance=run.instance_id).first()
    if hold is None or hold.rebuild is None:
        return
    is_target, is_dump = hold.purpose == "target", run.method == BackupMethod.DUMP
    meaning = meaning_alongside(method_named(hold.rebuild.method), is_target=is_target, is_dump=is_dump)
    what = f"external backup run {run.pk} ({run.method}, {run.origin}) started during the rebuild"
    log_event(hold.rebuild, f"On {hold.instance.name}, {what}. {meaning}", level=Level.WARNING)
    log_event(
        run,
        f"Rebuild {hold.rebuild.pk} uses {hold.instance.name} ({hold.purpose}). {meaning}",
        level=Level.WARNING,
    )
    announce_later(hold.rebuild.pk)
