"""The one error that the lab raises on purpose."""


class LabError(Exception):
    """What went wrong, in words for the person at the terminal; nothing else was changed unless it says so."""
