#!/bin/bash
# A published backup, restored into the data directory of a scratch server. After scratch_server.sh, pipes.sh and copied_options.sh.
# shellcheck disable=SC2154  # theirs

# Read the arguments that every job with a restored copy has.
# $1 name and machine id  $2 path, empty for none  $3 bytes  $4 run that made the backup  $5 checksum  $6 place of the scratch directory
# $7 the job's id  $8 owner  $9 required free bytes  $10 required free memory  $11 memory limit of a process  $12 cores
# $13 seconds for the server's start  $14 backup_type of a prepared copy
# then separated by spaces: $15 unpackers $16 backup tools $17 servers $18 clients $19 checkpoints files
# then numbers of words: $20 $21 $22 $23, and these words: of the unpacker, of the backup tool, of the server (each without the
# program), of ssh if the file is on another host
# shellcheck disable=SC2034  # for scratch_server.sh and the job
read_copy_arguments() {
    machine=$1 path=$2 bytes=$3 run=$4 sum=$5 place=$6 id=$7 owner=$8 needed=$9
    shift 9
    needed_memory=$1 most_memory=$2 cores=$3 start_seconds=$4 prepared=$5
    read -r -a unpackers <<<"$6"
    read -r -a tools <<<"$7"
    read -r -a programs <<<"$8"
    read -r -a clients <<<"$9"
    shift 9
    read -r -a checkpoints <<<"$1"
    first=$2 second=$3 third=$4 fourth=$5
    shift 5
    unpack=("${@:1:first}")
    prepare=("${@:first+1:second}")
    options=("${@:first+second+1:third}")
    transport=("${@:first+second+third+1:fourth}")
}
is_remote() { [ "${#transport[@]}" -gt 0 ]; }
read_file() { if is_remote; then exec "${transport[@]}" backup </dev/null; else exec cat <"$path"; fi; }

# Check the programs and the file before the first byte is written.
check_copy() {
    unpacker=$(first_program "${unpackers[@]}") || refuse "tool ${unpackers[0]} is not installed on this host."
    tool=$(first_program "${tools[@]}") || refuse "tool ${tools[0]} is not installed on this host."
    command -v zstd >/dev/null || refuse "tool zstd is not installed on this host."
    if is_remote; then # there, the forced command checks the record beside the file
        answer=$("${transport[@]}" check 2>&1 </dev/null)
        status=$?
        answer=$(printf '%s' "$answer" | tr '\n\t' '  ' | tail -c 400) # ssh can print several lines; the last one counts
        [ "$status" != 255 ] || refuse "transport The backup's host cannot be reached: $answer" # ssh's own status
        [ "$status" = 0 ] || refuse "The backup's host does not allow reading it: $answer"
        case $answer in *dbops-ready*) ;; *) refuse "Unexpected answer from the backup's host: $answer" ;; esac
    else
        is_backup_of "$path" "$bytes" "$run" "$sum" || refuse "$path is not the backup of run $run with $bytes bytes, by the record beside it."
        [ -r "$path" ] || refuse "$path cannot be read."
    fi
}

# Let the tools write where the account of the data sees its directory.
see_copy() {
    local number
    for number in "${!unpack[@]}"; do unpack[number]=${unpack[number]//"$scratch"/"$seen_scratch"}; done
    for number in "${!prepare[@]}"; do prepare[number]=${prepare[number]//"$scratch"/"$seen_scratch"}; done
}

unpack_copy() {
    # without space for the checksum file, no process would open the pipe and its writer would wait forever
    { : >sum; } 2>/dev/null || fail "space files cannot be written in $PWD."
    mkfifo seen
    add_up <seen >sum 2>/dev/null &
    adding=$!
    (
        echo "$BASHPID" >pid.transport
        exec 2>log.transport
        read_file
    ) |
        stage see tee --output-error=exit -- "$PWD/seen" |
        stage decompress zstd -q -d -c |
        (
            echo "$BASHPID" >pid.unpack
            exec 2>log.unpack >&2
            widen_input
            exec_as_owner "$unpacker" "${unpack[@]}"
        )
    stages=("${PIPESTATUS[@]}")
    { : <>seen; } 2>/dev/null # so that it ends even without a writer
    wait "$adding"
    must_go_on
    number=0
    for name in transport see decompress unpack; do
        echo "${stages[$number]}" >"stage.$name"
        number=$((number + 1))
    done
    ! grep -qi 'no space left' log.unpack log.decompress 2>/dev/null || fail "space the disk became full while the backup was unpacked."
    # a broken connection does not mean a bad backup: then the checksum process has ended and no later one failed before
    # (ssh itself ends with 255 or by a signal; other statuses come from the reader there)
    ! is_broken "${stages[0]}" || [ "${stages[1]}" != 0 ] || fail "transport ssh ended with status ${stages[0]}: $(words_of log.transport)"
    # damage can stop the unpacker before the whole file is read; only the checksum shows the cause
    if [ "${stages[*]}" != "0 0 0 0" ]; then
        for _ in $(seq 30); do # the sender may not have noticed yet that its reader has ended (75)
            (
                echo "$BASHPID" >pid.transport
                exec 2>log.transport
                read_file
            ) | add_up >sum
            status=${PIPESTATUS[0]}
            must_go_on
            [ "$status" = 75 ] || break
            sleep 1
        done
        ! is_broken "$status" || fail "transport the file could not be read completely: $(words_of log.transport)"
        [ "$status" = 0 ] || fail "damaged the file cannot be read: $(words_of log.transport)"
    fi
    read -r found _ <sum
    [ "$found" = "$sum" ] ||
        fail "damaged the file has checksum $found instead of $sum. $(words_of log.decompress) $(words_of log.unpack)"
    if [ "${stages[*]}" != "0 0 0 0" ]; then
        for status in "${stages[@]}"; do
            blame_the_host "$status" "the backup was unpacked" log.unpack log.decompress
        done
        fail "unpack reader, checksum, zstd and unpacker ended with ${stages[*]}: $(words_of log.decompress) $(words_of log.unpack)"
    fi
    [ ! -s log.unpack ] || fail "unpack the unpacking tool wrote: $(words_of log.unpack)"
    rm -f seen sum
    end_step "$(du -sb -- "$data" | cut -f1)"
    # The server would open files outside of the copy, possibly those of a running server.
    outside=$(find "$data" \( -name '*.isl' -o -type l \) -print -quit)
    [ -z "$outside" ] || fail "outside ${outside#"$data"/} refers to data outside of the data directory."
    my_cnf=$seen_data/backup-my.cnf
    ! as_owner grep -Eqs '^ *innodb[-_](undo_directory|data_home_dir|log_group_home_dir|data_file_path) *=.*/[^/;[:space:]]' "$my_cnf" ||
        fail "outside the backup's options name a directory outside of the data directory."
    reason=$(check_copied_options "$seen_data" "" "" "") || fail "prepare ${reason#FAILED: }"
}
# A job that is being ended, by the reason in its file, reads nothing again.
must_go_on() { [ ! -s reason ] || exit 70; }
is_broken() { is_remote && { [ "$1" -ge 128 ] || [ "$1" = 75 ]; }; }

prepare_copy() {
    redo=$(stat -c %s -- "$data"/ib_logfile* "$data"/xtrabackup_logfile 2>/dev/null | awk '{ bytes += $1 } END { printf "%.0f", bytes }')
    (
        echo "$BASHPID" >pid.prepare
        exec 2>log.prepare >&2
        exec_as_owner "$tool" "${prepare[@]}"
    )
    status=$?
    echo "$status" >stage.prepare
    if [ "$status" != 0 ] || ! tail -n 5 log.prepare | grep -q 'completed OK!'; then
        blame_the_host "$status" "the backup was prepared" log.prepare
        fail "prepare the tool ended with status $status: $(words_of log.prepare)"
    fi
    type=
    for name in "${checkpoints[@]}"; do
        [ -n "$type" ] || type=$(as_owner sed -n 's/^backup_type *= *//p' "$seen_data/$name" 2>/dev/null)
    done
    [ "$type" = "$prepared" ] || fail "prepare the copy has backup_type '$type' instead of '$prepared'."
    end_step "$redo"
}
