#!/bin/sh
# Kills engines under load with SIGKILL, fifty rounds, five engines at a time. All samples that were
# written must be present after the restart.
. "$(dirname "$0")/engine_lib.sh"

everything=
for name in DCGM_FI_DEV_GPU_UTIL DCGM_FI_DEV_POWER_USAGE DCGM_FI_DEV_FB_USED up scrape_duration_seconds gpu:util:avg ALERTS; do
    everything="$everything${everything:+ + }sum(count_over_time($name[2h]))"
done

# rounds NAME N: restarts one engine N times. The samples before a kill are counted, and again after
# the next start.
rounds() {
    known=0 at=0
    for round in $(seq "$2"); do
        start "$1" "$dir/$1" || return 1
        if [ "$at" != 0 ]; then
            found=$(ask "$everything" "$at")
            if [ "$found" != "$known" ]; then
                echo "$1, round $round: $known samples until $at were there before the kill, $found after it"
                return 1
            fi
            if grep -q 'incomplete or corrupt' "$dir/$1.log"; then
                grep -c 'incomplete or corrupt' "$dir/$1.log" >>"$dir/torn"
            fi
        fi
        sleep "1.$(($(od -An -N1 -tu1 /dev/urandom) % 9))"
        at=$(date +%s.%N)
        soon settled "$at" || { echo "$1, round $round: scrapes or rules do not continue"; return 1; }
        known=$(ask "$everything" "$at")
        written "$dir/$1" || { echo "$1, round $round: the log is not written"; return 1; }
        kill_engine "$1"
    done
    [ "${known:-0}" -gt 1000 ] || { echo "$1: there were only $known samples"; return 1; }
    echo "$1: $2 rounds, $known samples at the end"
}
jobs=
for name in one two three four five; do
    rounds "$name" 10 >"$dir/$name.result" 2>&1 &
    jobs="$jobs $!"
done
for job in $jobs; do wait "$job" || { cat "$dir"/*.result; fail "an engine lost samples"; }; done
cat "$dir"/*.result
echo "ok: fifty rounds of kill -9; $(wc -l 2>/dev/null <"$dir/torn" || echo 0) of them left a torn record"
