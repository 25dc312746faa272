#!/bin/sh
# The Helm chart with Helm 3 and 4: lint, and manifests for all parts, platforms and values files of other charts, validated against
# the schemas of the oldest supported, a middle and the newest version of Kubernetes. tests/e2e/helm_install.sh installs it.
. "${GPUSCALE_SOURCE_ROOT:?}/tests/integration/lib.sh"
need kubectl jq python3
helms=$("$source/tests/e2e/helm.sh" --no-build 2>"$dir/helm.log") || skip "$(cat "$dir/helm.log")"
schemas=$("$source/tests/e2e/schemas.sh" --no-build 2>"$dir/schemas.log") || skip "$(cat "$dir/schemas.log")"
chart=$source/deploy/helm/gpuscale examples=$source/tests/integration/chart
eks=$source/../shared/walkthroughs/eks/prometheus-adapter-values.yaml
[ -f "$eks" ] || eks=$source/examples/guides/eks/prometheus-adapter-values.yaml
# Relative paths, which have no blanks.
mkdir "$dir/examples"
cp "$examples"/*.yaml "$dir/examples"
cp "$eks" "$dir/examples/eks-guide.yaml"
cd "$dir"
examples=examples eks=examples/eks-guide.yaml
monitoring="--api-versions monitoring.coreos.com/v1"
helm=$(echo "$helms" | head -n 1)

# NAME ARGUMENT…: renders the chart to $dir/NAME.yaml.
render() {
    name=$1
    shift
    # shellcheck disable=SC2086
    "$helm" template gpuscale "$chart" --namespace monitoring $monitoring "$@" >"$dir/$name.yaml" 2>"$dir/$name.log" || fail "$name: $(cat "$dir/$name.log")"
}
# NAME: its objects as a JSON array in $dir/NAME.json. kubectl reads them without a server.
objects() {
    kubectl label --local -f "$dir/$1.yaml" test=yes -o json 2>"$dir/$1.log" >"$dir/$1.stream" || fail "$1: $(cat "$dir/$1.log")"
    jq -s '[.[] | if .kind == "List" then .items[] else . end]' "$dir/$1.stream" >"$dir/$1.json"
}
# NAME FILTER: the filter is true for the objects.
has() { jq -e "$2" "$dir/$1.json" >/dev/null || fail "$1: $2"; }
# The container of a workload, and its arguments.
def='def container($name): .[] | select(.metadata.name == "gpuscale-" + $name and .spec.template) | .spec.template.spec.containers[0];
     def pod($name): .[] | select(.metadata.name == "gpuscale-" + $name and .spec.template) | .spec.template;
     def object($kind; $name): .[] | select(.kind == $kind and .metadata.name == $name);'

# Every Helm says the same, and has no objection.
for helm in $helms; do
    for values in "" "--values $examples/parts.yaml"; do
        # shellcheck disable=SC2086
        "$helm" lint --strict "$chart" $values >"$dir/lint.log" 2>&1 || fail "helm lint: $(cat "$dir/lint.log")"
    done
    version=$(basename "$(dirname "$helm")")
    render "$version" --values "$examples/parts.yaml"
    objects "$version"
    jq -S 'sort_by(.kind, .metadata.namespace, .metadata.name)' "$dir/$version.json" >"$dir/$version.objects"
    [ ! -f "$dir/objects" ] || cmp "$dir/objects" "$dir/$version.objects" || fail "the manifests of $version differ"
    mv "$dir/$version.objects" "$dir/objects"
done
helm=$(echo "$helms" | head -n 1)
echo "ok: lint and equal manifests of $(echo "$helms" | wc -l) versions of Helm"

# All of them, validated for each version of Kubernetes.
cases="default parts operator eks gke ack aks k3s simulated adapter-alone embedded eks-guide prometheus-adapter dcgm-exporter dcgm-exporter-4.8.4 ack-values umbrella"
arguments_of() {
    case $1 in
    default) ;;
    parts) echo "--values $examples/parts.yaml" ;;
    operator | eks | gke | ack | aks | k3s) echo "--set platform=$1" ;;
    simulated) echo "--set simulate=4xTesla-T4" ;;
    adapter-alone) echo "--set exporter.enabled=false,engine.enabled=false,adapter.prometheusUrl=http://prometheus:9090" ;;
    embedded) echo "--set adapter.engine.enabled=true,adapter.certificates.certManager.enabled=true" ;;
    eks-guide) echo "--values $eks" ;;
    ack-values) echo "--values $examples/ack.yaml" ;;
    *) echo "--values $examples/$1.yaml" ;;
    esac
}
for schema in "$schemas"/v*.json; do
    version=$(basename "$schema" .json)
    for case in $cases; do
        # shellcheck disable=SC2046
        render "$case" $(arguments_of "$case") --kube-version "$version"
        { echo --- && cat "$dir/$case.yaml"; } >>"$dir/$version.yaml"
    done
    objects "$version"
    python3 "$source/tests/integration/manifest_schema.py" "$schema" <"$dir/$version.stream" >"$dir/errors.log" || fail "Kubernetes $version: $(sort -u "$dir/errors.log")"
done
echo "ok: $(echo "$cases" | wc -w) sets of values make valid manifests for $(cd "$schemas" && echo v*.json | sed 's/\.json//g')"

for case in $cases; do objects "$case"; done
for case in $cases; do
    has "$case" 'group_by([.apiVersion, .kind, .metadata.namespace, .metadata.name]) | all(length == 1)'
    has "$case" '[.[] | select(.kind | IN("ClusterRole", "ClusterRoleBinding", "PriorityClass", "APIService", "Namespace") | not) | .metadata.namespace] - ["monitoring", "kube-system"] == []'
    # The program takes all flags.
    jq -r '.[] | select(.spec.template) | .spec.template.spec.containers[0].args | @sh' "$dir/$case.json" >>"$dir/arguments"
done
sort -u "$dir/arguments" >"$dir/commands"
while read -r arguments; do
    eval "set -- $arguments"
    "$gpuscale" "$@" --help >/dev/null 2>"$dir/flags.log" || fail "gpuscale $arguments: $(cat "$dir/flags.log")"
done <"$dir/commands"
echo "ok: no object twice, and gpuscale takes the arguments of all containers"

# Simulated GPUs are in the image whose tag ends in -full. A digest, and a tag that ends so, are used as they are.
version=$("$source/tools/version")
images() { # ARGUMENT…: the images of the exporter and of the engine
    render images "$@"
    objects images
    jq -r "$def"'[container("exporter", "engine").image] | join(" ")' "$dir/images.json"
}
digest=sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
is_image() { # EXPORTER ENGINE ARGUMENT…
    wanted="registry.example:5000/gpuscale$1 registry.example:5000/gpuscale$2"
    shift 2
    found=$(images --set image.repository=registry.example:5000/gpuscale "$@")
    [ "$found" = "$wanted" ] || fail "images of $*: $found"
}
is_image ":$version" ":$version"
is_image ":$version-full" ":$version" --set simulate=4xTesla-T4
is_image :test-full :test --set simulate=4xTesla-T4,image.tag=test
is_image :test-full :test-full --set simulate=4xTesla-T4,image.tag=test-full
is_image "@$digest" "@$digest" --set simulate=4xTesla-T4,image.tag=test,image.digest=$digest
echo "ok: the exporter's image with simulated GPUs"

# The EKS guide's values: its Prometheus and its rules, everything else as by default.
jq -r "$def"'object("ConfigMap"; "gpuscale-adapter") | .data["config.yaml"]' "$dir/eks-guide.json" >"$dir/eks-rules.yaml"
"$gpuscale" check adapter "$dir/eks-rules.yaml" >"$dir/check.log" 2>&1 || fail "the rules of the EKS guide: $(cat "$dir/check.log")"
has eks-guide "$def"'container("adapter").args | index("--prometheus-url=http://kube-prometheus-stack-prometheus.monitoring.svc.cluster.local:9090")'
jq -S 'map(select(.metadata.name != "gpuscale-adapter" or .kind == "Service"))' "$dir/eks-guide.json" >"$dir/a"
jq -S 'map(select(.metadata.name != "gpuscale-adapter" or .kind == "Service"))' "$dir/default.json" | cmp "$dir/a" - || fail "the EKS guide's values change other parts"

has prometheus-adapter "$def"'container("adapter") | .image == "ghcr.io/gpuscale/gpuscale:'"$("$source/tools/version")"'" and ([
    "--prometheus-url=http://prometheus.monitoring.svc:80/prom", "--metrics-relist-interval=30s", "--secure-port=8443", "--v=6", "--audit-log-path=-"] - .args == []) and
    .env == [{name: "TZ", value: "UTC"}] and .resources == {requests: {cpu: "100m", memory: "128Mi"}, limits: {cpu: "250m", memory: "180Mi"}} and
    .securityContext.runAsUser == 10001 and any(.volumeMounts[]; .name == "audit")'
has prometheus-adapter "$def"'pod("adapter") | .metadata.labels.team == "ml" and .metadata.labels.monitoring == "prometheus-adapter" and
    .metadata.annotations.role == "custom-metrics" and .spec.hostNetwork and .spec.priorityClassName == "system-cluster-critical" and
    .spec.securityContext.fsGroup == 10001 and .spec.nodeSelector == {"kubernetes.io/os": "linux"} and any(.spec.tolerations[]; .key == "dedicated") and .spec.affinity.podAntiAffinity'
has prometheus-adapter "$def"'object("Deployment"; "gpuscale-adapter").spec.replicas == 3 and object("PodDisruptionBudget"; "gpuscale-adapter").spec.minAvailable == 2'
has prometheus-adapter "$def"'object("Service"; "gpuscale-adapter") | .spec.type == "NodePort" and .spec.ports[0].port == 8443 and .metadata.annotations.team == "ml"'
has prometheus-adapter "$def"'[.[] | select(.kind == "APIService") | .metadata.name] | sort == ["v1beta1.custom.metrics.k8s.io", "v1beta1.external.metrics.k8s.io", "v1beta1.metrics.k8s.io", "v1beta2.custom.metrics.k8s.io"]'
has prometheus-adapter "$def"'object("ConfigMap"; "gpuscale-more")'
# An activator of one namespace writes EndpointSlices only there.
render one-namespace --set activator.enabled=true,activator.namespace=inference
objects one-namespace
has one-namespace "$def"'container("activator").args | index("--namespace=inference")'
has one-namespace "$def"'object("ClusterRole"; "gpuscale-activator").rules == [{apiGroups: [""], resources: ["nodes"], verbs: ["list"]}]'
has one-namespace '[.[] | select(any(.rules[]?; .resources == ["endpointslices"] and any(.verbs[]; . == "create"))) | .kind + " " + .metadata.namespace] == ["Role inference"]'
for case in prometheus-adapter ack-values; do
    jq -r "$def"'object("ConfigMap"; "gpuscale-adapter") | .data["config.yaml"]' "$dir/$case.json" >"$dir/rules.yaml"
    "$gpuscale" check adapter "$dir/rules.yaml" >"$dir/check.log" 2>&1 || fail "the rules of $case: $(cat "$dir/check.log")"
done
has ack-values "$def"'container("adapter").args | index("--prometheus-url=https://cn-beijing.arms.aliyuncs.com:9443/api/v1/prometheus/a/b/c/cn-beijing") and index("--prometheus-header=Authorization=token")'

has dcgm-exporter "$def"'container("exporter") | (["-n", "-d", "f", "--address=:9500", "--kubernetes-enable-pod-labels", "--kubernetes-enable-pod-uid", "--kubernetes-enable-dra",
    "--kubernetes-pod-label-allowlist-regex=^app$,^team$", "--collectors=/etc/gpuscale-exporter/counters.csv"] - .args == []) and (.args | index("-f")) == null and
    any(.env[]; . == {name: "DCGM_EXPORTER_INTERVAL", value: "5000"}) and .ports[0].containerPort == 9500 and
    (.volumeMounts | any(.name == "own")) and (.volumeMounts | all(.name != "exporter-metrics-volume"))'
has dcgm-exporter "$def"'pod("exporter").spec | .runtimeClassName == "nvidia" and any(.tolerations[]; . == {operator: "Exists"}) and .nodeSelector["nvidia.com/gpu.present"] == "true" and
    .affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions == [{key: "nvidia-gpu", operator: "Exists"}] and
    any(.volumes[]; . == {name: "host-binaries", hostPath: {path: "/opt/bin"}}) and any(.volumes[]; .hostPath.path == "/var/lib/k0s/kubelet/pod-resources") and
    .hostNetwork and .dnsPolicy == "ClusterFirstWithHostNet"'
has dcgm-exporter "$def"'(object("ConfigMap"; "gpuscale-exporter-config").data["config.yaml"] | contains("interval: 5s")) and
    any(container("exporter").env[]; . == {name: "DCGM_EXPORTER_CONFIG_FILE", value: "/etc/dcgm-exporter/config.yaml"}) and
    any(container("exporter").volumeMounts[]; .mountPath == "/etc/dcgm-exporter/config.yaml" and .subPath == "config.yaml")'
has dcgm-exporter "$def"'object("ServiceMonitor"; "gpuscale-exporter") | .metadata.labels.release == "kube-prometheus-stack" and (.spec.endpoints[0] |
    .interval == "30s" and .scrapeTimeout == "25s" and .honorLabels == false and .relabelings[0].targetLabel == "nodename" and .metricRelabelings[0].targetLabel == "model")'
has dcgm-exporter "$def"'container("engine").args | index("--kube-monitors.selector=app.kubernetes.io/name!=gpuscale-exporter")'
has default "$def"'container("engine").args | all(startswith("--kube-monitors.selector") | not)'
has dcgm-exporter "$def"'object("ConfigMap"; "gpuscale-exporter").data["counters.csv"] | contains("DCGM_FI_DEV_GPU_UTIL, gauge")'
has dcgm-exporter "$def"'object("DaemonSet"; "gpuscale-exporter").spec.updateStrategy.rollingUpdate.maxUnavailable == 2'

has umbrella "$def"'(pod("adapter").spec.tolerations | any(.key == "adapter") and all(.key != "exporter")) and (pod("exporter").spec.tolerations | any(.key == "exporter") and all(.key != "adapter"))'
has umbrella "$def"'any(pod("adapter").spec.volumes[]; .configMap.name == "my-rules") and object("Secret"; "gpuscale-adapter-serving").data["tls.crt"] and
    object("APIService"; "v1beta1.custom.metrics.k8s.io").spec.caBundle'
has umbrella "$def"'container("adapter").resources == {requests: {cpu: "100m"}, limits: {memory: "32Mi"}}'
has dcgm-exporter-4.8.4 "$def"'(object("ConfigMap"; "gpuscale-exporter-config").data["config.yaml"] | contains("version: 2")) and
    (container("exporter").args | index("--metric-names=both"))'
has umbrella "$def"'object("Role"; "gpuscale-exporter").rules[0].resourceNames == ["my-counters"]'
has umbrella "$def"'(container("exporter") | .readinessProbe.tcpSocket and (.args | index("--web-config-file=/etc/gpuscale-exporter-web/web-config.yaml"))) and
    (object("Secret"; "gpuscale-exporter-web").stringData | .username == "other" and .password == "x" and (.["tls.crt"] | contains("BEGIN CERTIFICATE")) and (.["web-config.yaml"] | contains("prometheus"))) and
    (object("ServiceMonitor"; "gpuscale-exporter").spec.endpoints[0] | .scheme == "https" and .basicAuth.password.key == "password" and .honorLabels) and
    any(container("engine").volumeMounts[]; .mountPath == "/etc/gpuscale-exporter-web")'
jq -r "$def"'object("ConfigMap"; "gpuscale-engine").data["prometheus.yml"]' "$dir/umbrella.json" >"$dir/prometheus.yml"
grep -q '^  basic_auth: {username: "other", password_file: /etc/gpuscale-exporter-web/password}$' "$dir/prometheus.yml" || fail "the engine's job: $(cat "$dir/prometheus.yml")"
render own --set image.repository=registry.example/gpuscale,image.tag=v1.2,exporter.serviceAccount.name=mine \
    --set exporter.tolerations=null,adapter.externalRules=null,engine.resources=null \
    --set-string 'exporter.podAnnotations.prometheus\.io/scrape=no,commonLabels.team=all,exporter.extraPodLabels.team=mine'
objects own
# Not twice: kubectl takes the last one, but kustomize refuses such objects.
has own "$def"'pod("exporter").metadata | .annotations["prometheus.io/scrape"] == "no" and .labels.team == "mine"'
[ "$(grep -c '^        \(prometheus.io/scrape\|team\): ' "$dir/own.yaml")" = 4 ] || fail "labels or annotations of pods are twice in an object"
has own "$def"'container("engine").resources | not'
has own "$def"'pod("exporter").spec | .serviceAccountName == "mine" and .automountServiceAccountToken == false'
has own '[.[] | select(.spec.template) | .spec.template.spec.containers[0].image] | unique == ["registry.example/gpuscale:v1.2"]'
echo "ok: values of prometheus-adapter, dcgm-exporter, ACK and an umbrella chart have their effect"

# helm upgrade --reuse-values takes the values of the installed chart in place of those of this one.
cp -r "$chart" "$dir/reused"
cp "$examples/values-0.1.0.yaml" "$dir/reused/values.yaml"
for case in default parts; do
    arguments="$(arguments_of "$case") --set adapter.keda.enabled=true,activator.enabled=true,networkPolicies.enabled=true"
    # shellcheck disable=SC2086
    render installed --values "$examples/values-0.1.0.yaml" $arguments
    # shellcheck disable=SC2086
    (chart=$dir/reused && render reused $arguments)
    cmp "$dir/installed.yaml" "$dir/reused.yaml" || fail "$case: other manifests with the values of 0.1.0"
done
(chart=$dir/reused && render reused)
echo "ok: values that the chart of 0.1.0 does not have"

# KEDA's clients are not admitted without the check that was set.
"$helm" template gpuscale "$chart" --set adapter.keda.enabled=true,adapter.keda.clientCertificates=true >/dev/null 2>"$dir/keda.log" &&
    fail "clientCertificates without a certificate is accepted"
grep -q 'needs adapter.keda.existingSecret' "$dir/keda.log" || fail "$(cat "$dir/keda.log")"

# Without its RuntimeClass, the platform's driver is that of the host.
render no-class --set platform=operator,exporter.runtimeClassName=
objects no-class
has no-class "$def"'(pod("exporter").spec | .runtimeClassName == null and any(.volumes[]; .hostPath.path == "/")) and
    (container("exporter") | .securityContext.privileged and any(.env[]; . == {name: "DRIVER_ROOT_CTR_PATH", value: "/host"}))'
# The host engine of the node: by address, or by the folder of its socket, which is a new one after each restart.
render hostengine --set-string 'exporter.dcgm.hostEngine=$(NODE_IP):5555'
objects hostengine
has hostengine "$def"'container("exporter").env | index({name: "DCGM_REMOTE_HOSTENGINE_INFO", value: "$(NODE_IP):5555"}) >
    (map(.name) | index("NODE_IP"))'
render hostsocket --set-string exporter.dcgm.hostEngine=unix:/run/dcgm/engine.sock
objects hostsocket
has hostsocket "$def"'(container("exporter") | any(.env[]; . == {name: "GPUSCALE_EXPORTER_DCGM", value: "unix:/run/dcgm/engine.sock"}) and
    any(.volumeMounts[]; .name == "hostengine" and .mountPath == "/run/dcgm")) and any(pod("exporter").spec.volumes[]; .hostPath.path == "/run/dcgm")'
echo "ok: the host engine of DCGM by address and by socket"
# null removes a whole section. The schema names it.
for section in exporter engine.service adapter.certificates.certManager expander.podDisruptionBudget; do
    "$helm" template gpuscale "$chart" --set "$section=null" >/dev/null 2>"$dir/null.log" && fail "$section: null is accepted"
    grep -q "missing property '${section##*.}'" "$dir/null.log" || fail "$section: null: $(cat "$dir/null.log")"
done
echo "ok: an empty RuntimeClass, and null in place of sections"

# What has no effect is named. Keys that could belong to both charts are refused.
newest=$(echo "$helms" | tail -n 1) # Helm 3 needs a cluster for a dry run
notes() { # ARGUMENT…
    "$newest" install gpuscale "$chart" --namespace monitoring --dry-run=client "$@" 2>"$dir/notes.log" | sed -n '/^NOTES:/,$p'
}
unused() { notes "$@" | sed -n 's/^Values without effect: //p'; }
[ -z "$(unused)" ] || fail "default values without effect: $(unused)"
[ -z "$(unused --values "$eks")" ] || fail "the EKS guide's values without effect: $(unused --values "$eks")"
[ "$(unused --values "$examples/prometheus-adapter.yaml")" = "dnsConfig, image, psp.create, strategy" ] || fail "without effect: $(unused --values "$examples/prometheus-adapter.yaml")"
[ "$(unused --values "$examples/dcgm-exporter.yaml")" = "image, livenessProbe, securityContext, service.clusterIP" ] || fail "without effect: $(unused --values "$examples/dcgm-exporter.yaml")"
[ "$(unused --values "$examples/dcgm-exporter-4.8.4.yaml")" = "daemonSetAnnotations, image" ] || fail "without effect: $(unused --values "$examples/dcgm-exporter-4.8.4.yaml")"
[ "$(unused --set 'tolerations[0].operator=Exists')" = tolerations ] || fail "without effect: $(unused --set 'tolerations[0].operator=Exists')"
"$helm" template gpuscale "$chart" --set 'arguments={-n},rules.default=true,resources.limits.cpu=1' >/dev/null 2>"$dir/both.log" && fail "keys of both charts are accepted"
grep -q 'These keys exist in both charts: resources' "$dir/both.log" || fail "keys of both charts: $(cat "$dir/both.log")"

# A release without exporter, engine and adapter has a next command, too.
notes --set exporter.enabled=false,engine.enabled=false,adapter.enabled=false,autoscaler.enabled=false,expander.enabled=true |
    grep -A 1 '^Next:$' | grep -q 'kubectl -n monitoring get pods -l app.kubernetes.io/instance=gpuscale$' || fail "notes of the expander alone: no next command"

# The chart's own keys are not taken for those of another chart.
own=$(sed -n 's/^\([a-zA-Z]*\):.*/\1/p' "$chart/values.yaml")
for key in $own; do
    grep -q "\"$key\"" "$chart/templates/_compat.tpl" || fail "templates/_compat.tpl does not know the own key $key"
done
echo "ok: keys without effect are named in the notes"
