#!/bin/sh
# Tests the data directory of gpuscale up: one instance, --stop, --reset, and directories of others.
# Also: commands of --image run in the working directory of up, and all parts report one version of
# Kubernetes.
. "$(dirname "$0")/lib.sh"
need kubectl curl jq
data=$dir/data
up() { "$gpuscale" up --data-dir "$data" "$@"; }
# refused WHAT PATTERN COMMAND…
refused() {
    what=$1 pattern=$2
    shift 2
    if "$@" >"$dir/refused.out" 2>&1; then fail "$what is not refused"; fi
    grep -q "$pattern" "$dir/refused.out" || { cat "$dir/refused.out"; fail "$what: not \"$pattern\""; }
    echo "ok: $what is refused"
}

# Without an instance, no directory is created.
up --stop | grep -q "^No gpuscale up runs on" || fail "--stop without a directory"
[ ! -e "$data" ] || fail "--stop creates the directory"

mkdir "$dir/work"
cat >"$dir/work/app.sh" <<'S'
echo "in $PWD with $1"
exec sleep 1000
S
cd "$dir/work"
start_up --gpus 2xTesla-T4 --image 'script:*=sh app.sh'
first=$up_pid
kubectl run app --image=script:1 -- word
wait_for "a relative script of --image runs where up was started" sh -c "kubectl logs app | grep -qx 'in $dir/work with word'"

# All parts report the same version.
minor=$(kubectl get --raw /version | jq -r .minor)
kubectl get nodes -o 'jsonpath={.items[0].status.nodeInfo.kubeletVersion}' | grep -q "^v1\.$minor\." || fail "the node has another version than /version"
"$gpuscale" up --help-all | tr '\n' ' ' | tr -s ' ' | grep -q "1\.$minor, the release of the API, with HPAScaleToZero on" || fail "--help names another version than /version"
kubectl create deployment web --image=script:1 --replicas=0
kubectl autoscale deployment web --max=3 --cpu-percent=50
wait_for "the autoscaler acts" sh -c "kubectl get hpa web -o json | jq -e '.status.conditions | length > 0'"
# status.observedGeneration exists since 1.37.
[ "$minor" -ge 37 ] || [ -z "$(kubectl get hpa web -o 'jsonpath={.status.observedGeneration}')" ] || fail "the autoscaler is of another version than /version"

# A second instance on the same directory is rejected.
refused "a second gpuscale up" "in use by another gpuscale up (process $first); end that one with \"gpuscale up --stop --data-dir '$data'\"" up --api-port 0
kill -0 "$first" || fail "the first instance ended"

# at TIME: whether there are samples of the exporter at this time.
at() { curl -sSfG --data-urlencode "query=count(up)" -d "time=$1" "$(engine_url)/api/v1/query" | jq -e '.data.result | length > 0'; }
wait_for "samples are stored" sh -c "curl -sSf '$(engine_url)/api/v1/query?query=up' | jq -e '.data.result | length > 0'"
during=$(curl -sSfG --data-urlencode 'query=max(timestamp(up))' "$(engine_url)/api/v1/query" | jq -r '.data.result[0].value[1]')
up --stop | grep -qx "Stopped gpuscale up on $data" || fail "--stop prints another message"
wait "$first" || fail "gpuscale up ended with exit code $? after --stop"
up_pid=
! pgrep -f "$dir/data" >/dev/null || fail "processes are left after --stop"
between=$(date +%s.%N)
up --stop | grep -q "^No gpuscale up runs on $data" || fail "a second --stop"
[ -f "$data/state.db" ] || fail "--stop removes the state"

# The next instance reads the objects again. --reset stops it, and the instance after that has no
# objects.
echo mine >"$data/notes.txt"
mkdir "$dir/elsewhere" && echo keep >"$dir/elsewhere/file" && mkdir -p "$data/pods/x" && ln -s "$dir/elsewhere" "$data/pods/x/link"
start_up --gpus 2xTesla-T4 --image 'script:*=sh app.sh'
first=$up_pid
kubectl get pod app >/dev/null || fail "the objects are lost after a restart"
at "$during" >/dev/null || fail "the samples are lost after a restart"
! at "$between" >/dev/null || fail "series do not end with the process"
up_pid=
mv "$dir/up.log" "$dir/first.log"
start_up --gpus 2xTesla-T4 --reset
wait "$first" || fail "gpuscale up ended with exit code $? after --reset of another"
grep -qx "Stopped gpuscale up on $data" "$dir/up.log" || fail "--reset does not report that it stopped another instance"
grep -qx "Removed the state in $data; other files in it were kept" "$dir/up.log" || fail "--reset does not report what it removed"
[ -z "$(kubectl get pods -o name)" ] || fail "--reset keeps pods"
! at "$during" >/dev/null || fail "--reset keeps samples"
[ "$(cat "$data/notes.txt" "$dir/elsewhere/file")" = "mine
keep" ] || fail "--reset removes files of others"

up --stop --reset >"$dir/stop.out"
wait "$up_pid" || fail "gpuscale up ended with exit code $? after --stop --reset"
up_pid=
[ "$(ls -A "$data")" = notes.txt ] || { ls -A "$data"; fail "--stop --reset leaves state"; }
rm "$data/notes.txt"
start_up --gpus 2xTesla-T4 --retention 0
[ ! -e "$data/samples" ] || fail "--retention 0 stores samples"
up --reset --stop >"$dir/stop.out"
wait "$up_pid" || fail "gpuscale up ended with exit code $? after --reset --stop"
up_pid=
[ ! -e "$data" ] || fail "an empty directory is left"

# Directories of others: with the same names, and with another lock file.
mkdir -p "$data/pods/mine"
refused "a directory with foreign pods/" "not a data directory of gpuscale up, and has a file \"pods\"" up --api-port 0
refused "its reset" "not a data directory of gpuscale up" up --reset
refused "its reset without a start" "not a data directory of gpuscale up" up --stop --reset
[ -d "$data/pods/mine" ] || fail "a foreign directory was removed"
rmdir "$data/pods/mine" "$data/pods"
echo 1 >"$data/lock"
refused "a directory with a foreign lock" "has a file \"lock\"" up --reset
[ "$(cat "$data/lock")" = 1 ] || fail "a foreign lock was changed"
rm "$data/lock"

# A stale lock with the pid of another process: no process is stopped.
sleep 1000 &
pids=$!
printf 'gpuscale up\n%s\n' "$!" >"$data/lock"
up --stop | grep -q "^No gpuscale up runs on" || fail "a stale lock is used"
(
    exec 9>>"$data/lock"
    flock 9
    exec sleep 1000
) &
pids="$pids $!"
wait_for "the lock is held" sh -c "! flock -n '$data/lock' true"
refused "a lock of another process" "its process is not found on this machine" up --stop
kill -0 "${pids%% *}" || fail "another process was ended"
