"""Text of another machine as an SQL literal."""


def sql_text(value: str) -> str:
    """Return ``value`` as an SQL string: for positions, which come from files of another machine."""
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
