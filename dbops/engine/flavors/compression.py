"""Decide by version whether XtraBackup compresses the stream and xbstream decompresses it.

Read in release notes, manual and source (percona/percona-xtrabackup), not tried with every release. Seen with 8.0.35 and 8.4.0: each file
of the stream but ``xtrabackup_checkpoints`` is compressed, and what ``xbstream -x --decompress`` leaves is plain. By its source the copies
that ``--extra-lsndir`` leaves are not compressed, and tables with page compression (``COMPRESSION=``) travel as they are.
"""

import re

Release = tuple[int, int, int, int]
_NUMBERS = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-(\d+))?")

#: From where on zstd is in general availability: from 8.0.30-23 on it was a preview (release notes of 8.0.34-29). 8.4 began with it.
ZSTD_SINCE: dict[tuple[int, int], Release] = {(8, 0): (8, 0, 34, 29), (8, 4): (8, 4, 0, 1)}
#: PXB-3470: until then xbstream reads every table space that it has expanded once again, for holes that only page compression makes.
ONE_PASS_SINCE: dict[tuple[int, int], Release] = {(8, 0): (8, 0, 35, 34), (8, 4): (8, 4, 0, 4)}


def xtrabackup_compress_problem(tool_version: str | None, unpacker_version: str | None) -> str:
    """Return why XtraBackup must not compress the stream itself, as the end of a sentence, ``""`` where it may.

    Args:
        tool_version: of xtrabackup on the source, as ``8.0.35-34``; ``None`` where it could not be read.
        unpacker_version: of xbstream on the target, alike.
    """
    tool, unpacker = _release(tool_version), _release(unpacker_version)
    if tool is None:
        return "the version of xtrabackup on the source is not known"
    if tool < (8, 0, 0, 0):
        return f"xtrabackup {tool_version} on the source has no zstd"
    if unpacker is None:
        return "the version of xbstream on the target is not known"
    for program, version, release, since, why in (
        ("xtrabackup", tool_version, tool, ZSTD_SINCE, "on the source has zstd for use only from {} on"),
        (
            "xbstream",
            unpacker_version,
            unpacker,
            ONE_PASS_SINCE,
            "on the target reads all that it has expanded once again, before {} (PXB-3470)",
        ),
    ):
        first = since.get(release[:2])
        if first is None:
            return f"of {program} {version} it is not known here whether it does so in one pass"
        if release < first:
            return f"{program} {version} {why.format('{}.{}.{}-{}'.format(*first))}"
    return ""


def compress_words(threads: int) -> list[str]:
    """Return XtraBackup's options to compress with so many threads in all, none for 0. Level 1: the quickest, and its default."""
    return ["--compress=zstd", f"--compress-threads={threads}", "--compress-zstd-level=1"] if threads else []


def _release(version: str | None) -> Release | None:
    """Without the number behind the dash it counts as 0: older than any release of that version."""
    found = _NUMBERS.search(version or "")
    if found is None:
        return None
    major, minor, patch, build = (int(number or 0) for number in found.groups())
    return major, minor, patch, build
