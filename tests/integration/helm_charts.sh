#!/bin/sh
# The charts that the guides and their neighbours install, with the real Helm 3 and 4: every release is deployed, its pods
# become Ready, and what it installs is connected. The objects of the charts are those of the published ones, rendered; a
# chart whose only template prints them makes Helm treat them as its own, with hooks and waits.
. "$(dirname "$0")/lib.sh"
need kubectl curl jq openssl
charts=$source/../shared/walkthroughs/charts
[ -d "$charts" ] || skip "the objects of the charts are not beside the project ($charts)"
helms=$("$source/tests/e2e/helm.sh" --no-build 2>"$dir/helm.log") || skip "$(cat "$dir/helm.log")"
export HELM_CACHE_HOME="$dir/helm/cache" HELM_CONFIG_HOME="$dir/helm/config" HELM_DATA_HOME="$dir/helm/data"

# The published charts bring complete definitions; these are enough for objects and for kubectl get.
crd() { # KIND PLURAL GROUP VERSION SCOPE COLUMNS
    printf 'apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: %s.%s}\n' "$2" "$3"
    printf 'spec:\n  group: %s\n  scope: %s\n  names: {kind: %s, plural: %s, singular: %s, listKind: %sList}\n' "$3" "$5" "$1" "$2" "$(echo "$1" | tr '[:upper:]' '[:lower:]')" "$1"
    printf '  versions:\n  - name: %s\n    served: true\n    storage: true\n    subresources: {status: {}}\n' "$4"
    printf '    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}\n%s' "$6"
}
columns='    additionalPrinterColumns:
    - {name: Ready, type: integer, jsonPath: .status.availableReplicas}
    - {name: Reconciled, type: string, jsonPath: ".status.conditions[?(@.type == '"'Reconciled'"')].status"}
    - {name: Available, type: string, jsonPath: ".status.conditions[?(@.type == '"'Available'"')].status"}
'
# chart NAME VERSION FILE: makes $dir/charts/NAME from a file of objects.
chart() {
    folder=$dir/charts/$1
    mkdir -p "$folder/templates" "$folder/crds"
    printf 'apiVersion: v2\nname: %s\nversion: %s\n' "$1" "$2" >"$folder/Chart.yaml"
    printf '{{ .Files.Get "objects.yaml" }}\n' >"$folder/templates/all.yaml"
    cp "$3" "$folder/objects.yaml"
    chmod u+w "$folder/objects.yaml"
    case $1 in
    kube-prometheus-stack)
        for kind in Prometheus:prometheuses Alertmanager:alertmanagers; do
            crd "${kind%:*}" "${kind#*:}" monitoring.coreos.com v1 Namespaced "$columns" >"$folder/crds/${kind#*:}.yaml"
        done
        ;;
    gpu-operator) crd ClusterPolicy clusterpolicies nvidia.com v1 Cluster '' >"$folder/crds/clusterpolicies.yaml" ;;
    esac
}
chart kube-prometheus-stack 88.5.3 "$charts/kube-prometheus-stack-88.5.3.yaml"
chart dcgm-exporter 2.6.10 "$charts/dcgm-exporter-2.6.10.yaml"
chart prometheus-adapter 5.3.0 "$charts/prometheus-adapter-5.3.0.yaml"
chart metrics-server 3.13.1 "$charts/metrics-server-3.13.1.yaml"
chart nvidia-device-plugin 0.20.0 "$charts/nvidia-device-plugin-0.20.0.yaml"
chart ingress-nginx 4.15.1 "$charts/ingress-nginx-4.15.1.yaml"
chart gpu-operator 26.3.3 "$charts/gpu-operator-v26.3.3.yaml"
chart cluster-autoscaler 9.59.0 "$charts/cluster-autoscaler-9.59.0.yaml"
chart cert-manager 1.19.0 "$charts/cert-manager-v1.19.0.yaml"

start_up --gpus 4xTesla-T4
url=$(engine_url)

# install RELEASE NAMESPACE CHART [FLAG…]: at most one line of warnings.
install() {
    release=$1 namespace=$2 name=$3
    shift 3
    "$helm" install "$release" "$dir/charts/$name" --namespace "$namespace" --create-namespace "$@" >"$dir/install.log" 2>&1 || fail "helm install $name: $(cat "$dir/install.log")"
    grep -q '^STATUS: deployed' "$dir/install.log" || fail "$name is not deployed: $(cat "$dir/install.log")"
    [ "$(grep -ci warning "$dir/install.log")" -le 1 ] || fail "helm install $name prints warnings: $(cat "$dir/install.log")"
    echo "ok: $name is deployed"
}
uninstall() { "$helm" uninstall "$1" --namespace "$2" >"$dir/uninstall.log" 2>&1 || fail "helm uninstall $1: $(cat "$dir/uninstall.log")"; }
# Pods of finished Jobs are Completed.
all_ready() { # NAMESPACE AT-LEAST
    kubectl get pods --namespace "$1" --no-headers 2>/dev/null | awk -v least="$2" '$3 == "Completed" { next } { n++; split($2, r, "/"); if (r[1] != r[2] || $3 != "Running") bad = 1 } END { exit bad || n < least }'
}
targets() { curl -sS "$url/api/v1/targets?state=active" | jq -r '.data.activeTargets[] | .scrapePool + " " + .health'; }
value() { curl -sS -G "$url/api/v1/query" --data-urlencode "query=$1" | jq -r '.data.result[0].value[1]'; }
available() { [ "$(kubectl get apiservice "$1" -o jsonpath='{.status.conditions[?(@.type=="Available")].status}')" = True ]; }
forward() { # NAME NAMESPACE SERVICE PORT: sets forwarded
    kubectl port-forward "svc/$3" ":$4" --namespace "$2" >"$dir/$1.forward" 2>&1 &
    echo $! >"$dir/$1.pid"
    wait_for "$3 is forwarded" grep -q '^Forwarding from' "$dir/$1.forward"
    forwarded=$(sed -n 's/^Forwarding from \(127[^ ]*\) .*/\1/p' "$dir/$1.forward" | head -n 1)
}
unforward() { kill "$(cat "$dir/$1.pid")" 2>/dev/null || true; rm -f "$dir/$1.pid"; }

check_stack() {
    install kube-prometheus-stack prometheus kube-prometheus-stack
    wait_for "all pods of kube-prometheus-stack are Ready" all_ready prometheus 6
    kubectl get pods -n prometheus --no-headers >"$dir/pods"
    for pod in alertmanager-kube-prometheus-stack-alertmanager-0:2/2 kube-prometheus-stack-grafana:3/3 kube-prometheus-stack-kube-state-metrics:1/1 \
        kube-prometheus-stack-operator:1/1 kube-prometheus-stack-prometheus-node-exporter:1/1 prometheus-kube-prometheus-stack-prometheus-0:2/2; do
        awk -v name="${pod%:*}" -v ready="${pod#*:}" 'index($1, name) == 1 && $2 == ready { ok = 1 } END { exit !ok }' "$dir/pods" || fail "no pod $pod: $(cat "$dir/pods")"
    done
    reconciled() { [ "$(kubectl get prometheus,alertmanager -n prometheus --no-headers | awk '$2 == 1 && $3 == "True" && $4 == "True"' | wc -l)" = 2 ]; }
    wait_for "the Prometheus and the Alertmanager are reconciled and available" reconciled
    pod=prometheus-kube-prometheus-stack-prometheus-0
    kubectl logs -n prometheus $pod -c prometheus | head -n 1 | grep -q '^gpuscale: this container is not quay.io/prometheus/prometheus:.*; the metrics engine of gpuscale up runs in its place' ||
        fail "the log of $pod does not say what runs there: $(kubectl logs -n prometheus $pod -c prometheus | head -n 3)"
    [ "$(kubectl exec -n prometheus $pod -c prometheus -- sh -c 'echo ok')" = ok ] || fail "exec in $pod"
    forward prometheus prometheus kube-prometheus-stack-prometheus 9090
    [ "$(curl -sS "http://$forwarded/api/v1/query?query=vector(7)" | jq -r '.data.result[0].value[1]')" = 7 ] || fail "the forwarded Prometheus does not answer"
    unforward prometheus
    forward grafana prometheus kube-prometheus-stack-grafana 80
    curl -sSf "http://$forwarded/api/health" | jq -e '.database == "ok"' >/dev/null || fail "the health of the Service of Grafana"
    unforward grafana
    [ -n "$(kubectl get secret --namespace prometheus kube-prometheus-stack-grafana -o jsonpath='{.data.admin-password}' | base64 --decode)" ] || fail "no password of Grafana"
    scraped() { targets | grep -q "serviceMonitor/prometheus/$1/0 up"; }
    for monitor in kube-prometheus-stack-prometheus kube-prometheus-stack-kube-state-metrics kube-prometheus-stack-operator; do
        wait_for "the monitor $monitor has a target" scraped $monitor
    done
    once() { [ "$(value 'max(count by (namespace, pod) (kube_pod_info))')" = 1 ]; }
    wait_for "series of kube-state-metrics are stored once" once
    watts() { [ "$(value 'count(DCGM_FI_DEV_POWER_USAGE)')" = 4 ]; }
    wait_for "series of GPUs are stored once" watts
}

check_upgrade() {
    objects=$dir/charts/kube-prometheus-stack/objects.yaml
    cp "$objects" "$dir/first.yaml"
    sed 's/^  portName: http-web$/&\n  additionalScrapeConfigs: {name: more-scrape-confg, key: additional-scrape-configs.yaml}/' "$dir/first.yaml" >"$objects"
    cat >>"$objects" <<END
---
apiVersion: v1
kind: Secret
metadata: {name: more-scrape-confg, namespace: prometheus}
stringData:
  additional-scrape-configs.yaml: |
    - job_name: gpu-metrics
      scrape_interval: 1s
      static_configs: [{targets: ["$(sed -n 's#.*exporter: http://\([0-9.:]*\)/metrics.*#\1#p' "$dir/up.log" | head -n 1)"]}]
END
    "$helm" upgrade kube-prometheus-stack "$dir/charts/kube-prometheus-stack" --namespace prometheus >"$dir/upgrade.log" 2>&1 || fail "helm upgrade: $(cat "$dir/upgrade.log")"
    has_pool() { targets | grep -q '^gpu-metrics '; }
    wait_for "helm upgrade adds the job gpu-metrics" has_pool
    "$helm" rollback kube-prometheus-stack 1 --namespace prometheus >"$dir/rollback.log" 2>&1 || fail "helm rollback: $(cat "$dir/rollback.log")"
    has_no_pool() { ! has_pool; }
    wait_for "helm rollback removes it" has_no_pool
    cp "$dir/first.yaml" "$objects"
}

check_apis() {
    kubectl describe apiservices v1beta1.metrics.k8s.io | grep -q 'Status:  *True' || fail "v1beta1.metrics.k8s.io is not available"
    install metrics-server kube-system metrics-server
    has_endpoint() { [ "$(kubectl get endpoints metrics-server -n kube-system --no-headers 2>/dev/null | awk '{ print $2 }')" != '<none>' ]; }
    wait_for "metrics-server has an endpoint" has_endpoint
    kubectl logs -n kube-system -l app.kubernetes.io/name=metrics-server | grep -q '^gpuscale: this container is not ' || fail "the log of metrics-server"
    for version in 2.5.1 5.3.0; do
        chart prometheus-adapter $version "$charts/prometheus-adapter-$version.yaml"
        install prometheus-adapter default prometheus-adapter
        wait_for "the API of prometheus-adapter $version is available" available v1beta1.custom.metrics.k8s.io
        wait_for "prometheus-adapter $version is Ready" all_ready default 1
        uninstall prometheus-adapter default
    done
    uninstall metrics-server kube-system
    wait_for "the APIs are available without the charts" available v1beta1.custom.metrics.k8s.io
    wait_for "so are resource metrics" available v1beta1.metrics.k8s.io
}

check_neighbours() {
    install nvdp kube-system nvidia-device-plugin
    plugin() { [ "$(kubectl get daemonset -n kube-system nvdp-nvidia-device-plugin --no-headers | awk '{ print $4 }')" = 1 ]; }
    wait_for "the device plugin is Ready" plugin
    install ingress-nginx ingress-nginx ingress-nginx --wait --timeout 3m
    install gpu-operator gpu-operator gpu-operator --wait --timeout 3m
    operator_ready() { [ "$(kubectl get clusterpolicies -o jsonpath='{.items[0].status.state}')" = ready ]; }
    wait_for "the ClusterPolicy is ready" operator_ready
    install ca kube-system cluster-autoscaler --wait --timeout 3m
    if "$helm" install cert-manager "$dir/charts/cert-manager" --namespace cert-manager --create-namespace --timeout 3m >"$dir/cert.log" 2>&1; then
        fail "cert-manager, for which nothing runs here, is deployed"
    fi
    grep -Eq 'ImageNotAvailable|Job Failed' "$dir/cert.log" || fail "Helm does not say why cert-manager fails: $(cat "$dir/cert.log")"
    echo "ok: cert-manager fails at once"
    "$gpuscale" doctor >"$dir/doctor.txt" 2>&1 || true
    grep -q cert-manager "$dir/doctor.txt" || fail "doctor does not name the release that failed: $(cat "$dir/doctor.txt")"
    for release in nvdp:kube-system ingress-nginx:ingress-nginx gpu-operator:gpu-operator ca:kube-system cert-manager:cert-manager; do
        uninstall "${release%:*}" "${release#*:}"
    done
}

# Its readiness probe waits for 45 seconds.
exporter_ready() { [ "$(kubectl get daemonset -n default dcgm-exporter --no-headers | awk '{ print $4 }')" = 1 ]; }

for helm in $helms; do
    echo "-- $("$helm" version --short)"
    install exporter default dcgm-exporter
    check_stack
    scraped_exporter() { targets | grep -q 'serviceMonitor/default/dcgm-exporter/0 up'; }
    wait_for "dcgm-exporter is Ready" exporter_ready
    wait_for "dcgm-exporter has a target" scraped_exporter
    uninstall exporter default
    check_upgrade
    check_apis
    check_neighbours
    uninstall kube-prometheus-stack prometheus
    gone() { [ -z "$(kubectl get all,jobs -n prometheus --no-headers 2>/dev/null)" ]; }
    wait_for "nothing of kube-prometheus-stack is left" gone
done
