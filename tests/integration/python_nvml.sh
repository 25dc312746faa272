#!/bin/sh
# Published Python programs that read NVML, on simulated GPUs: nvidia-ml-py, gpustat and nvitop, in a shell with the
# variables that `gpuscale sim create` prints, and in a pod of `gpuscale up`. `make peers` installs them.
. "$(dirname "$0")/lib.sh"
need kubectl python3 jq
python=$("$source/tests/differential/python_venv.sh" --no-build nvml 2>"$dir/venv") || skip "$(cat "$dir/venv")"
programs=${python%/*}

own_gpus nvml
"$gpuscale" sim create 1xA100-SXM4-80GB,1xTesla-K80,1xH100-80GB-HBM3 >"$dir/created"
set_name=$GPUSCALE_SIM
unset GPUSCALE_SIM
eval "$(grep '^ *export ' "$dir/created")" # as a user pastes them
[ "$GPUSCALE_SIM" = "$set_name" ] || fail "the printed variable: $GPUSCALE_SIM"

"$python" "$source/tests/integration/python_nvml.py" || fail "nvidia-ml-py"

# same_table: gpustat and `gpuscale smi` show the same GPUs.
same_table() {
    "$programs/gpustat" --json >"$dir/gpustat.json" 2>"$dir/gpustat.log" || return 1
    jq -r '.gpus[] | [.index, .name, .uuid, ."memory.used", ."memory.total"] | map(tostring) | join(", ")' "$dir/gpustat.json" >"$dir/theirs"
    "$gpuscale" smi --query-gpu=index,name,uuid,memory.used,memory.total --format=csv,noheader,nounits >"$dir/ours"
    cmp -s "$dir/ours" "$dir/theirs"
}
same_table || { diff "$dir/ours" "$dir/theirs"; fail "gpustat"; }
[ ! -s "$dir/gpustat.log" ] || fail "gpustat: $(cat "$dir/gpustat.log")"
echo "ok: gpustat shows what gpuscale smi shows"

"$programs/nvitop" --once --colorful >"$dir/nvitop" 2>&1 || fail "nvitop"
! grep -qE 'ERROR|Traceback|Not Found' "$dir/nvitop" || fail "nvitop: $(cat "$dir/nvitop")"
[ "$(grep -cE 'A100-SXM4-80GB|Tesla K80|H100 80GB HBM3' "$dir/nvitop")" = 3 ] || fail "nvitop shows other GPUs: $(cat "$dir/nvitop")"
echo "ok: nvitop shows the GPUs"
unset GPUSCALE_SIM LD_LIBRARY_PATH

start_up --gpus 2xTesla-T4
kubectl apply -f - <<Y
apiVersion: v1
kind: Pod
metadata: {name: reader}
spec:
  restartPolicy: Never
  containers:
  - {name: c, image: any, command: ["$programs/gpustat", --json], resources: {limits: {nvidia.com/gpu: 1}}}
Y
wait_for "gpustat has ended in its pod" kubectl wait --for=jsonpath='{.status.phase}'=Succeeded --timeout=5s pod/reader
kubectl logs reader | jq -e '[.gpus[].name] | unique == ["Tesla T4"]' >/dev/null || fail "gpustat in a pod: $(kubectl logs reader)"
stop_up
echo "python nvml: all checks passed"
