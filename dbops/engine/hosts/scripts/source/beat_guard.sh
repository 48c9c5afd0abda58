#!/bin/bash
# The heartbeat for the guard on the source, from steps that have nothing else to do there.
set -u
beat
