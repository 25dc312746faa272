#!/bin/sh
# Compares the metrics APIs of `gpuscale up` and `gpuscale adapter`. Both scrape the same page and
# have the same rules and objects, so the responses must be equal.
. "$(dirname "$0")/lib.sh"
need kubectl curl python3
here=$(dirname "$0")

# The page contains GPU series, and for each pod the series of the other rules.
mkdir "$dir/page"
{
    # The exporter of up uses the newer name of this label.
    sed s/Hostname=/hostname=/ "$source/tests/adapter/provider/gpu_page.txt"
    i=0
    for pod in a b c d e; do
        i=$((i + 1))
        echo "queue_length{namespace=\"ml\",pod=\"$pod\",queue=\"q$i\"} $i"
        echo "container_cpu_seconds_per_second{namespace=\"ml\",pod=\"$pod\",container=\"x\",node=\"n$i\"} 0.$i"
        echo "container_memory_bytes{namespace=\"ml\",pod=\"$pod\",container=\"x\",node=\"n$i\"} ${i}000000"
    done
} >"$dir/page/metrics.txt"
port=$(free_port)
python3 -m http.server --bind 127.0.0.1 --directory "$dir/page" "$port" >"$dir/page.out" 2>&1 &
pids="$pids $!"

cat >"$dir/rules.yaml" <<'Y'
rules:
- seriesQuery: 'queue_length'
  resources: {overrides: {namespace: {resource: namespace}, pod: {resource: pod}}}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
- seriesQuery: 'DCGM_FI_DEV_GPU_UTIL'
  name: {as: own_util}
  resources: {overrides: {hostname: {resource: node}, namespace: {resource: namespace}, pod: {resource: pod}}}
  metricsQuery: max(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
externalRules:
- seriesQuery: 'queue_length'
  name: {as: queue_total}
  resources: {overrides: {namespace: {resource: namespace}}}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>})
resourceRules:
  cpu: &usage
    containerQuery: sum by (<<.GroupBy>>) (container_cpu_seconds_per_second{<<.LabelMatchers>>})
    nodeQuery: sum by (<<.GroupBy>>) (container_cpu_seconds_per_second{<<.LabelMatchers>>})
    resources: {overrides: {node: {resource: node}, namespace: {resource: namespace}, pod: {resource: pod}}}
    containerLabel: container
  memory:
    containerQuery: sum by (<<.GroupBy>>) (container_memory_bytes{<<.LabelMatchers>>})
    nodeQuery: sum by (<<.GroupBy>>) (container_memory_bytes{<<.LabelMatchers>>})
    resources: {overrides: {node: {resource: node}, namespace: {resource: namespace}, pod: {resource: pod}}}
    containerLabel: container
  window: 1m
Y

# The pods are on nodes without a kubelet, so they do not change.
{
    echo 'apiVersion: v1
kind: Namespace
metadata: {name: ml}'
    i=0
    for pod in a b c d e; do
        i=$((i + 1))
        [ "$pod" = a ] || [ "$pod" = b ] && app=web || app=$pod
        cat <<Y
---
apiVersion: v1
kind: Pod
metadata: {name: $pod, namespace: ml, labels: {app: $app}}
spec: {nodeName: n$i, containers: [{name: x, image: none}]}
---
apiVersion: v1
kind: Node
metadata: {name: n$i}
Y
    done
    cat <<Y
---
apiVersion: v1
kind: Service
metadata: {name: front, namespace: ml}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web, namespace: ml}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: x, image: none}]}
---
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata: {name: page, namespace: ml}
spec:
  selector: {matchLabels: {app: c}}
  podMetricsEndpoints:
  - path: /metrics.txt
    honorLabels: true
    interval: 1s
    relabelings:
    - {targetLabel: __address__, replacement: '127.0.0.1:$port'}
    - {action: labeldrop, regex: 'namespace|pod|container|endpoint'}
Y
} >"$dir/objects.yaml"
start_up --gpus 1xTesla-T4 -f "$dir/objects.yaml" --adapter-config "$dir/rules.yaml"
kubectl config view --raw -o 'jsonpath={.users[0].user.client-certificate-data}' | base64 -d >"$dir/client.pem"
kubectl config view --raw -o 'jsonpath={.users[0].user.client-key-data}' | base64 -d >>"$dir/client.pem"
chmod 600 "$dir/client.pem"
up=$(kubectl config view -o 'jsonpath={.clusters[0].cluster.server}')
for pod in a b c d e; do
    curl -sSf --cacert "$dir/data/pki/ca.crt" --cert "$dir/client.pem" -o "$dir/patched" -X PATCH -H 'Content-Type: application/merge-patch+json' \
        -d '{"status":{"phase":"Running","podIP":"127.0.0.1","podIPs":[{"ip":"127.0.0.1"}],"conditions":[{"type":"Ready","status":"True"}]}}' \
        "$up/api/v1/namespaces/ml/pods/$pod/status"
done

cat >"$dir/engine.yaml" <<Y
scrape_configs:
- {job_name: page, metrics_path: /metrics.txt, honor_labels: true, scrape_interval: 1s, scrape_timeout: 1s, static_configs: [{targets: ['127.0.0.1:$port']}]}
Y
"$gpuscale" adapter --config="$dir/rules.yaml" --engine-config="$dir/engine.yaml" --secure-port=0 --bind-address=127.0.0.1 \
    --cert-dir="$dir/cert" --authentication-skip-lookup --client-ca-file="$dir/data/pki/ca.crt" --lister-kubeconfig="$KUBECONFIG" \
    --authentication-kubeconfig="$KUBECONFIG" --authorization-kubeconfig="$KUBECONFIG" >"$dir/adapter.log" 2>&1 &
pids="$pids $!"
adapter_port() { sed -n 's#.*listening on https://127.0.0.1:\([0-9]*\).*#\1#p' "$dir/adapter.log" | grep .; }
wait_for "the adapter listens" adapter_port
python3 "$here/one_adapter.py" "$up" "https://127.0.0.1:$(adapter_port)" "$dir/client.pem" "$patience" || fail "the responses differ"
