"""Check that the copy's position was read from the planned source."""

from contextlib import closing, suppress

from dbops.engine.errors import RemoteFailure
from dbops.engine.flavors.base import Coordinates
from dbops.engine.flavors.binlog_origin import foreign_position
from dbops.engine.phrases import phrase
from dbops.engine.rebuilds.steps.run import Run


def must_be_of_source(run: Run, position: Coordinates) -> None:
    """Compare the position with the source's own binary logs.

    Raises:
        RemoteFailure: ``backup.other_server``.
        Unreachable: the source's server does not answer.
    """
    with closing(run.source.connect(60.0)) as database:
        try:
            logs = {str(row["Log_name"]): int(row["File_size"]) for row in database.query("SHOW BINARY LOGS")}
        except RemoteFailure:
            return  # the account may not list them, or the server has none
        gtid_there = None
        with suppress(RemoteFailure):
            # a log without replicated transactions has another position than the server
            logs_all = not run.plan.skips_source
            if run.flavor.name == "mariadb" and logs_all and position.log_file in logs:
                place = (position.log_file, position.log_pos)
                gtid_there = database.query("SELECT BINLOG_GTID_POS(%s, %s) AS gtid", place)[0]["gtid"]
    found = foreign_position(run.flavor, position, logs, gtid_there=gtid_there)
    if found:
        raise RemoteFailure(
            "backup.other_server",
            phrase("Comparing the copy's position with the source"),
            cause=phrase(
                "{source} answers at {socket}, but {found}",
                source=run.source.party.name,
                socket=run.source.party.socket,
                found=found,
            ),
        )
    run.journal.say(
        phrase("The copy's position is of {source}.", source=run.source.party.name), host=run.source.party.host
    )
