"""One row of a replication status, old or new column names, as ``ReplicationFacts``."""

from collections.abc import Mapping, Sequence
from typing import Any

from dbops.engine.facts.instance import ReplicationFacts
from dbops.engine.flavors.connection_options import Option, filters_from, options_from


def replication_from(row: Mapping[str, Any], options: Sequence[Option] = ()) -> ReplicationFacts:
    """Return the connection that a row of SHOW REPLICA STATUS, SHOW SLAVE STATUS or SHOW ALL SLAVES STATUS describes.

    Values may be text, numbers or ``None`` (a client in batch mode writes ``NULL``). ``open_temp_tables`` is not in
    the row.
    """

    def text(*names: str) -> str:
        found = next((row[name] for name in names if row.get(name) is not None), "")
        return "" if found == "NULL" else str(found)

    def number(*names: str) -> int:
        value = text(*names)
        return int(value) if value.isdigit() else 0

    lag = text("Seconds_Behind_Source", "Seconds_Behind_Master")
    using = text("Using_Gtid")
    position = text("Executed_Gtid_Set", "Gtid_Slave_Pos", "Gtid_IO_Pos")
    return ReplicationFacts(
        channel=text("Channel_Name", "Connection_name"),
        source_host=text("Source_Host", "Master_Host"),
        source_port=number("Source_Port", "Master_Port"),
        io_running=text("Replica_IO_Running", "Slave_IO_Running"),
        sql_running=text("Replica_SQL_Running", "Slave_SQL_Running"),
        lag_seconds=float(lag) if lag else None,
        uses_gtid=using not in ("", "No") or text("Auto_Position") == "1",
        gtid_position="".join(position.split()),
        relay_source_log_file=text("Relay_Source_Log_File", "Relay_Master_Log_File"),
        exec_source_log_pos=number("Exec_Source_Log_Pos", "Exec_Master_Log_Pos"),
        last_io_error=text("Last_IO_Error"),
        last_sql_error=text("Last_SQL_Error"),
        source_server_id=number("Source_Server_Id", "Master_Server_Id") or None,
        source_uuid=text("Source_UUID", "Master_UUID"),
        source_user=text("Source_User", "Master_User"),
        options=options_from(row, options),
        filters=filters_from(row),
    )
