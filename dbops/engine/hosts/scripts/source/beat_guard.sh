#!/bin/bash
# Send the guard's heartbeat on the source, for steps without other work there.
set -u
beat
