"""Decide by version whether XtraBackup compresses the stream and xbstream decompresses it.

From release notes, manual and source (percona/percona-xtrabackup); not every release was tested. Seen with 8.0.35 and 8.4.0:
every file of the stream except ``xtrabackup_checkpoints`` is compressed, and ``xbstream -x --decompress`` leaves plain files. By
the source, the copies from ``--extra-lsndir`` are not compressed, and tables with page compression (``COMPRESSION=``) are sent
unchanged.
"""

import re

from dbops.engine.phrases import phrase

Release = tuple[int, int, int, int]
_NUMBERS = re.compile(r"(?<!\d)(\d+)\.(\d+)\.(\d+)(?:-(\d+))?")

#: zstd is generally available from here; from 8.0.30-23 it was a preview (release notes of 8.0.34-29). 8.4 always has it.
ZSTD_SINCE: dict[tuple[int, int], Release] = {(8, 0): (8, 0, 34, 29), (8, 4): (8, 4, 0, 1)}
#: PXB-3470: older xbstream reads every decompressed table space once more to look for holes, which only page compression makes.
ONE_PASS_SINCE: dict[tuple[int, int], Release] = {(8, 0): (8, 0, 35, 34), (8, 4): (8, 4, 0, 4)}


def xtrabackup_compress_problem(tool_version: str | None, unpacker_version: str | None) -> str:
    """Return why XtraBackup cannot compress the stream, as the end of a sentence, or ``""``.

    Args:
        tool_version: of xtrabackup on the source, as ``8.0.35-34``; ``None`` if unknown.
        unpacker_version: of xbstream on the target, in the same form.
    """
    tool, unpacker = _release(tool_version), _release(unpacker_version)
    if tool is None:
        return phrase("the version of xtrabackup on the source is unknown")
    if tool < (8, 0, 0, 0):
        return phrase("xtrabackup {tool_version} on the source has no zstd", tool_version=tool_version)
    if unpacker is None:
        return phrase("the version of xbstream on the target is unknown")
    for program, version, release, since in (
        ("xtrabackup", tool_version, tool, ZSTD_SINCE),
        ("xbstream", unpacker_version, unpacker, ONE_PASS_SINCE),
    ):
        first = since.get(release[:2])
        if first is None:
            return phrase(
                "it is unknown whether {program} {version} does so in one pass", program=program, version=version
            )
        if release < first:
            of = {"tool": f"{program} {version}", "first": "{}.{}.{}-{}".format(*first)}
            if program == "xtrabackup":
                return phrase("{tool} on the source has zstd for use only from {first} on", **of)
            return phrase(
                "{tool} on the target reads all that it has expanded once again, before {first} (PXB-3470)", **of
            )
    return ""


def compress_words(threads: int) -> list[str]:
    """Return XtraBackup's options for compression with this number of threads; none for 0. Level 1 is the fastest and the default."""
    return ["--compress=zstd", f"--compress-threads={threads}", "--compress-zstd-level=1"] if threads else []


def _release(version: str | None) -> Release | None:
    """Return the version with its release; a missing release counts as 0, older than any release of that version."""
    found = _NUMBERS.search(version or "")
    if found is None:
        return None
    major, minor, patch, build = (int(number or 0) for number in found.groups())
    return major, minor, patch, build
