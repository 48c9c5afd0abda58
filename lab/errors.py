"""The lab's error."""


class LabError(Exception):
    """A failure, described for the person at the terminal."""
