"""The API for programs, below ``/api/v1/``: the same operations and queries as the pages, with tokens instead of sessions."""
