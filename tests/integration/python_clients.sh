#!/bin/sh
# The published Python clients of Kubernetes against the API of `gpuscale up`. `make peers` installs them.
. "$(dirname "$0")/lib.sh"
need kubectl python3
python=$("$source/tests/differential/python_venv.sh" --no-build kubernetes 2>"$dir/venv") || skip "$(cat "$dir/venv")"

start_up --gpus none
kubectl apply -f - <<Y
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers:
  - name: web
    image: any
    command: [sh, -c, "echo hello >hello.txt; head -c 10000000 /dev/zero >large; exec python3 '$source/tests/integration/python_clients.py' --serve 8000"]
    ports: [{name: http, containerPort: 8000}]
    env: [{name: COLOUR, value: green}]
    readinessProbe: {httpGet: {port: http}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: http}]
Y
kubectl wait --for=condition=Ready --timeout=180s pod/web
for client in kubernetes kr8s lightkube kubernetes_asyncio; do
    timeout $patience "$python" "$source/tests/integration/python_clients.py" $client || fail "the client $client"
done
stop_up
echo "python clients: all checks passed"
