"""Text of another machine in SQL: as a literal, or as a name."""


def sql_text(value: str) -> str:
    """Return ``value`` as an SQL string: for positions, which come from files of another machine."""
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def sql_name(value: str) -> str:
    """Return ``value`` as an SQL identifier, in back-ticks: names of schemas, tables and accounts may contain any character."""
    return "`" + value.replace("`", "``") + "`"
