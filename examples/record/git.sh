#!/usr/bin/env bash
# A developer's working day in small: clone a repository, change between its states, search it,
# commit, collect the garbage. $REPOSITORY is what is cloned, this project by default. Needs git.
if [ "${1-}" = load ]; then
    # shellcheck disable=SC2154 # mnt and REPOSITORY are handed down
    cd "$mnt"
    export HOME=$mnt GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org
    export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
    git -c advice.detachedHead=false clone -q --no-hardlinks origin.git work
    cd work
    for back in 300 50 150 10 400 0; do
        git checkout -q --detach "$(git rev-list --max-count=1 --skip=$back origin/HEAD)"
        git status --short > /dev/null
        sleep 1
    done
    git grep -n unsafe > /dev/null || true
    git log --stat -n 300 > /dev/null
    for n in $(seq 1 20); do
        for file in $(git ls-files | awk -v n="$n" 'NR % 20 == n % 20'); do
            if [ -f "$file" ]; then echo "// $n" >> "$file"; fi
        done
        git commit -q -a -m "change $n"
        sleep 0.5
    done
    git -c gc.autoDetach=false gc -q --prune=now
    sync -f "$mnt"
    exit
fi

self=$(readlink -f "$0")
# shellcheck source=examples/record/stand.sh
. "$(dirname "$self")/stand.sh"
need git
repository=${REPOSITORY:-$(git -C "$(dirname "$self")" rev-parse --show-toplevel)}

make_device 1G
make_filesystem
git -c safe.directory='*' clone -q --mirror --no-hardlinks "$repository" "$mnt/origin.git"
cold
record git "git: clone, checkouts, grep, log, twenty commits, gc, on ext4 with cold caches" \
    "$self" load
