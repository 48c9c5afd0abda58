#!/bin/sh
# Whether others can exchange what a path leads to. For a POSIX shell; common.sh has the same for an entered directory.

# Print the lowest of path $1 and the directories above it in which an account other than root can write, or which it owns. Prints
# nothing if only root can exchange what the path leads to. What is missing is made by root later.
exchangeable_at() (
    at=$1 unless=-true
    # shellcheck disable=SC2086  # words
    while [ -z "$(find -H "$at" -maxdepth 0 \( ! -uid 0 -o $unless \( -perm -002 -o -perm -020 \) \) -print 2>/dev/null)" ]; do
        [ "$at" != / ] || return 0
        # without a program: one that is missing for a moment would make this endless
        case $at in /*) at=${at%/*} ;; *) break ;; esac
        at=${at:-/} unless='! -perm -1000' # a sticky directory protects what is root's in it
    done
    printf '%s' "$at"
)
