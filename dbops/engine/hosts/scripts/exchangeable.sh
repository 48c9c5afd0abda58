#!/bin/sh
# Whether others can exchange what a path leads to. For a POSIX shell; common.sh has the same for an entered directory.

# Print the lowest of path $1 and the directories above it in which an account other than root can write, or which it owns. Prints
# nothing if only root can exchange what the path leads to. What is missing is made by root later.
exchangeable_at() (
    case $1 in /*) ;; *) printf '%s' "$1" && return ;; esac
    at=$1
    set -- "$at"
    # without a program: one that is missing for a moment would make this endless
    while [ "$at" != / ]; do
        at=${at%/*} at=${at:-/}
        set -- "$@" "$at"
    done
    # a sticky directory protects what is root's in it: one above, but not the lowest itself
    if [ -k "$1" ] && [ -n "$(find -H "$1" -maxdepth 0 \( -perm -002 -o -perm -020 \) -print 2>/dev/null)" ]; then
        printf '%s' "$1" && return
    fi
    # one program for all of them: it names the first
    find -H "$@" -maxdepth 0 \( ! -uid 0 -o ! -perm -1000 \( -perm -002 -o -perm -020 \) \) -print -quit 2>/dev/null
    # what cannot be looked at is not taken for safe; a directory that is missing gives another status
    case $? in 126 | 127) printf '%s' "$1" ;; esac
)
