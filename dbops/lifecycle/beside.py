"""A backup that dbops did not start, on an instance that a rebuild uses: nobody could hold it back, so both are told."""

from dbops.engine.backup_states import BackupMethod
from dbops.engine.schedule.conflicts import meaning_beside
from dbops.engine.states import Level
from dbops.lifecycle.events import announce_later, tell
from dbops.models import BackupRun, Hold


def tell_beside(run: BackupRun) -> None:
    """Tell in both histories that a run began beside a rebuild, and what that means. One query where no rebuild is there."""
    holds = Hold.objects.select_related("rebuild", "instance").filter(rebuild__isnull=False)
    hold = holds.filter(instance=run.instance_id).first()
    if hold is None or hold.rebuild is None:
        return
    is_target, is_dump = hold.purpose == "target", run.method == BackupMethod.DUMP
    meaning = meaning_beside(hold.rebuild.method, is_target=is_target, is_dump=is_dump)
    what = f"backup run {run.pk} ({run.method}, {run.origin}), which dbops did not start, began beside it"
    tell(hold.rebuild, f"On {hold.instance.name} {what}. {meaning}", level=Level.WARNING)
    tell(
        run,
        f"Rebuild {hold.rebuild.pk} uses {hold.instance.name} as its {hold.purpose}. {meaning}",
        level=Level.WARNING,
    )
    announce_later(hold.rebuild.pk)
