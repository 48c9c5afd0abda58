#!/bin/bash
# Print the memory available to a new process without swapping.
set -eu
sed -n 's/^MemAvailable: *\([0-9]*\).*/\1/p' /proc/meminfo | awk '{ printf "free_bytes=%.0f\n", $1 * 1024 }'
