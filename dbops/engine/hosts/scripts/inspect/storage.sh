#!/bin/sh
# What is below a data directory: file system, block devices, machine. For a POSIX shell, together with probe.sh. Reads files of the
# kernel; programs get only names that the kernel or the mount table has. Each value may be missing.

read_features() { # of the processor: sets features
    features=$(grep -m 1 -E '^(flags|[Ff]eatures)[[:space:]]*:' /proc/cpuinfo)
}

is_virtual() { # x86 and Xen report it; for others, check the names of the disks
    [ -n "${features+known}" ] || read_features
    case "$features " in *' hypervisor '*) return 0 ;; esac
    [ -e /sys/hypervisor/type ] || [ -e /sys/class/block/vda ]
}

is_in_container() { # markers of Docker, Podman and systemd-nspawn; an overlay shows itself as the file system
    [ -e /.dockerenv ] || [ -e /run/.containerenv ] || [ -e /run/systemd/container ]
}

say() { # WORD FILE: the first line of a kernel's file
    value=
    { read -r value <"$2"; } 2>/dev/null
    [ -z "$value" ] || printf '%s %s\n' "$1" "$value"
}

find_space() { # of the file system with directory $1: sets free and size in bytes, type, and mounted as in the mount table
    # shellcheck disable=SC2034  # for probe.sh
    free='' size='' type='' mounted=''
    # the last one can have spaces
    # shellcheck disable=SC2034  # for probe.sh
    { read -r _ && read -r free size type mounted; } <<END
$(df -B1 --output=avail,size,fstype,source -- "$1" 2>/dev/null)
END
}

find_storage() { # below file system number $1 of type and mounted: sets block, the device's directory in /sys
    case $type in '' | *[!A-Za-z0-9_.-]*) type=- ;; esac
    # as the kernel packs it (new_encode_dev); "/dev/root" of the mount table has no file
    block=$(readlink -f "/sys/dev/block/$(($1 >> 8 & 4095)):$(($1 & 255 | $1 >> 12 & 1048320))")
    [ ! -d "$block" ] || return 0
    # Btrfs has numbers of its own. The name of a share or dataset is no device.
    case $mounted in /dev/?*) ;; *) return 0 ;; esac
    device=$(readlink -f -- "$mounted")
    [ -z "$device" ] || block=$(readlink -f "/sys/class/block/${device##*/}")
}

# Of directory $1, found before: set storage to file system type, block size, device, its largest atomic write, and whether it is
# rotational.
describe_storage() {
    device=-
    [ "$type" != zfs ] || device=$(printf %s "${mounted:--}" | tr -c 'A-Za-z0-9_.:/-' _)
    [ ! -d "$block" ] || device=${block##*/}
    queue=$block/queue
    [ -d "$queue" ] || queue=${block%/*}/queue # a partition
    limit=- turns=-
    { read -r limit <"$queue/atomic_write_unit_max_bytes"; } 2>/dev/null
    { read -r turns <"$queue/rotational"; } 2>/dev/null
    # for a virtual machine's disk, only the hypervisor's claim is known
    [ "$turns" != 1 ] || ! is_virtual || turns=-
    # shellcheck disable=SC2034  # for probe.sh
    storage="$type $(stat -f -c %S -- "$1" 2>/dev/null || echo 0) $device $limit $turns"
}

layers_of() { # block device with directory $1 in /sys, $2 layers below the file system: it and what it consists of, lines "WORD VALUE"
    if [ "$2" -ge 8 ]; then echo cut && return; fi
    kind=disk
    for found in partition dm md loop; do
        [ ! -e "$1/$found" ] || kind=$found
    done
    printf 'layer %s %s\n' "$kind" "${1##*/}"
    if [ "$kind" = partition ]; then
        say start "$1/start"
        say id "$1/partition"
        layers_of "${1%/*}" $(($2 + 1))
        return
    fi
    say atomic "$1/queue/atomic_write_unit_max_bytes"
    say logical "$1/queue/logical_block_size"
    for file in device/vendor device/model dm/name md/level; do
        say model "$1/$file"
    done
    for file in wwid device/wwid device/serial serial dm/uuid md/uuid; do
        say id "$1/$file"
    done
    for below in "$1"/slaves/*; do
        [ ! -e "$below" ] || layers_of "$(readlink -f "$below")" $(($2 + 1))
    done
}

layers() { # of the storage that was found, the highest first, after what is known of the machine; "whole" at the end of all
    ! is_virtual || echo 'machine virtual'
    ! is_in_container || echo 'machine container'
    for file in sys_vendor product_name board_vendor; do
        say dmi "/sys/class/dmi/id/$file"
    done
    [ ! -d "$block" ] || layers_of "$block" 0
    echo whole
}

put_layers() { # as a record of the probe
    printf 'datadir.layers\t%.8192s\000' "$(layers)"
}

answers() { # of programs that may be missing, about the storage that was found: lines "WORD NUMBER"
    case $type in
    ext4) # only with bigalloc has it a cluster size
        limited 16384 dumpe2fs -h "/dev/${block##*/}" |
            sed -n 's/^Block size: *\([0-9]\{1,9\}\)$/block \1/p; s/^Cluster size: *\([0-9]\{1,9\}\)$/cluster \1/p'
        ;;
    zfs)
        case $mounted in
        [A-Za-z]*) limited 256 zfs get -Hp -o value recordsize "$mounted" | sed -n 's/^\([0-9]\{1,12\}\)$/record \1/p' ;;
        esac
        ;;
    esac
    [ "$(id -u)" = 0 ] && command -v nvme >/dev/null || return 0
    for disk in $(layers_of "$block" 0 | sed -n 's/^layer disk \(nvme[0-9a-z]*\)$/\1/p' | head -n 8); do
        limited 16384 nvme id-ctrl "/dev/$disk" | sed -n "s/^awupf *: *\([0-9]\{1,9\}\)\$/awupf \1 $disk/p"
    done
}
