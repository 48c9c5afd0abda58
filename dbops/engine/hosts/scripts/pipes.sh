#!/bin/bash
# Functions for a copy's pipes.

# Enlarge a pipe from 64 KiB to 1 MiB: backup tools read and write 10 MiB at a time, so the other end waits less. Without
# perl and python3, or if the host does not allow it, the pipe is unchanged.
widen_input() {
    perl -e 'fcntl(STDIN, 1031, 1 << 20)' 2>/dev/null || python3 -c 'import fcntl; fcntl.fcntl(0, 1031, 1 << 20)' 2>/dev/null
    return 0
}

widen_output() { widen_input <&1; }

# Print the SHA-256 of standard input in the format of sha256sum. openssl uses processor instructions: 1 GB took 0.8 s, with
# sha256sum of coreutils 9.1 4.2 s (2026-11-24). Test openssl with empty input first: it can be configured to refuse.
add_up() {
    local nothing
    nothing=$(openssl dgst -sha256 -r </dev/null 2>/dev/null)
    widen_input
    [ "${nothing%% *}" != e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 ] || exec openssl dgst -sha256 -r
    exec sha256sum
}
