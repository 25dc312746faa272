#!/bin/sh
# gpuscale up in the background: --detach returns when the cluster is ready, and reports why if it
# does not become ready; --env prints its environment for sh and fish; --stop ends it. Commands find
# it by its data directory, and say so.
. "$(dirname "$0")/lib.sh"
need kubectl
unset KUBECONFIG GPUSCALE_URL PROMETHEUS_URL 2>/dev/null || true
data="$dir/the data"
up() { "$gpuscale" up --data-dir "$data" --api-port 0 --exporter-port 0 --prometheus-port 0 --gpus none "$@"; }
also_stop() { "$gpuscale" up --stop --data-dir "$data" >/dev/null 2>&1 || true; "$gpuscale" up --stop >/dev/null 2>&1 || true; }
trap 'code=$? && set +e && also_stop; (exit "$code"); finish' EXIT

# fails CODE TEXT COMMAND…
fails() {
    want=$1 text=$2 code=0
    shift 2
    "$@" >"$dir/out" 2>&1 || code=$?
    [ "$code" = "$want" ] || { cat "$dir/out" && fail "exit code $code, not $want, from: $*"; }
    grep -qF -- "$text" "$dir/out" || { cat "$dir/out" && fail "no \"$text\" from: $*"; }
    echo "ok: $text"
}

fails 1 "no gpuscale up runs on the data directory, which does not exist; start one with gpuscale up --detach" "$gpuscale" up --env --data-dir "$data"
fails 2 "--detach and --stop cannot both be given" "$gpuscale" up --detach --stop
fails 2 "it cannot be given with --stop or --reset" "$gpuscale" up --env --stop

# --- a start that fails ---
printf 'apiVersion: v1\nkind: Foo\nmetadata: {name: a}\n' >"$dir/foo.yaml"
fails 2 'no matches for kind "Foo"' up --detach -f "$dir/foo.yaml"
fails 2 "ended before it was ready; the end of its log $data/up.log" up --detach -f "$dir/foo.yaml"
fails 1 "no gpuscale up runs on $data" "$gpuscale" up --env --data-dir "$data"
fails 1 "$dir/none.yaml: No such file or directory" up --detach -f "$dir/none.yaml"

# --- a start that succeeds ---
printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mine}\n' >"$dir/mine.yaml"
environment=$(up --detach --env -f "$dir/mine.yaml" 2>"$dir/progress")
grep -q "^Ready: node .*Prometheus API http" "$dir/progress" || { cat "$dir/progress" && fail "no line Ready"; }
grep -q "gpuscale up --stop --data-dir '$data'" "$dir/progress" || { cat "$dir/progress" && fail "it does not say how it is ended"; }
eval "$environment"
[ "$KUBECONFIG" = "$data/kubeconfig" ] || fail "KUBECONFIG=$KUBECONFIG"
kubectl get configmap mine || fail "the files were not applied before --detach returned"
# kubectl apply continues where up -f ended.
printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mine}\ndata: {a: b}\n' >"$dir/mine.yaml"
kubectl apply -f "$dir/mine.yaml" >"$dir/applied" 2>&1 && ! grep -qi warning "$dir/applied" || { cat "$dir/applied" && fail "kubectl apply warns after up -f"; }
[ "$(command -v gpuscale)" = "$data/bin/gpuscale" ] || fail "PATH=$PATH"
[ "$("$gpuscale" up --env --data-dir "$data" | grep -c PATH)" = 0 ] || fail "a second evaluation extends PATH again"
fails 0 "set -gx KUBECONFIG '$data/kubeconfig';" "$gpuscale" up --env=fish --data-dir "$data"
fails 0 "set -gx KUBECONFIG" env SHELL=/usr/bin/fish "$gpuscale" up --env --data-dir "$data"
if command -v fish >/dev/null 2>&1; then
    fails 0 "KUBECONFIG is $data/kubeconfig" fish --no-config -c '"$argv[1]" up --env=fish --data-dir "$argv[2]" | source; echo KUBECONFIG is $KUBECONFIG; command -v gpuscale' "$gpuscale" "$data"
    grep -qxF "$data/bin/gpuscale" "$dir/out" || { cat "$dir/out" && fail "PATH in fish"; }
fi
fails 1 "$data is in use by another gpuscale up" up --detach
fails 1 "eval \"\$(gpuscale up --env --data-dir '$data')\"" up
pid=$(tail -n 1 "$data/lock")
[ "$(ps -o sid= -p "$pid" | tr -d ' ')" = "$pid" ] || fail "it is in the session of a terminal"
[ "$(ls "/proc/$pid/fd" | wc -l)" -gt 5 ] && ! ls -l "/proc/$pid/fd" | grep -qF "$dir/progress" || fail "it holds files of its caller"
fails 0 "Stopped gpuscale up on $data" "$gpuscale" up --stop --data-dir "$data"
ended() { case $(ps -o stat= -p "$pid") in '' | Z*) ;; *) return 1 ;; esac; }
wait_for "the process ends" ended
[ -s "$data/up.log" ] || fail "no log"

# --- found by its data directory ---
unset KUBECONFIG
fails 0 "Ready: " "$gpuscale" up --detach --gpus none --api-port 0 --exporter-port 0 --prometheus-port 0
here=$HOME/.local/share/gpuscale
fails 0 "(of the gpuscale up in $here)" "$gpuscale" query 'vector(1)'
fails 0 "(of the gpuscale up in $here)" "$gpuscale" nodes
fails 1 "a gpuscale up runs in $here: use it with eval \"\$(gpuscale up --env)\"" env KUBECONFIG=/nonexistent "$gpuscale" nodes
fails 1 "a gpuscale up runs in $here" env KUBECONFIG=/nonexistent "$gpuscale" query 'vector(1)'
fails 0 "(of the gpuscale up in $here)" env HOME=/nonexistent GPUSCALE_DATA_DIR="$here" "$gpuscale" nodes
fails 0 "Stopped gpuscale up on $here" "$gpuscale" up --stop --reset
