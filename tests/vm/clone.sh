#!/bin/sh
# `git clone` and a build like cargo's, each recorded by strace and by event probes: both recordings
# have the same operations, and their replays on other file systems leave the tree that the command
# left.
set -u
# shellcheck source=tests/vm/lib.sh
. /vm/lib.sh
# shellcheck source=tests/vm/trees.sh
. /vm/trees.sh

need_calls
command -v git >/dev/null 2>&1 || skip 'no git'
mkdir -p /tmp/made
cd /tmp/made || exit 1

loop_file_system ext4 || skip 'no ext4'
! command -v mkfs.xfs >/dev/null 2>&1 || loop_file_system xfs || fail 'no xfs'

elsewhere() { # name tree
    replay_both "$1" "$2" /mnt/ext4 afap
    ! grep -q ' /mnt/xfs ' /proc/mounts || replay_both "$1" "$2" /mnt/xfs dependency
}

make_repository source

# Objects are linked to those of the repository.
echo 'git clone -q source linked' >linked.sh
record_both linked linked.sh linked
compare_both linked operations
elsewhere linked tmp/made/linked

# Objects come as a pack, through a pipe from one process to another.
echo 'git clone -q --no-local source packed' >packed.sh
record_both packed packed.sh packed
compare_both packed amounts
elsewhere packed tmp/made/packed

write_build build.sh
record_both build build.sh tree
compare_both build operations
elsewhere build tmp/made/tree

finish
