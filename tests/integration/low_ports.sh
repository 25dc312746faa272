#!/bin/sh
# Port 80 without permission to bind it: pods, probes, endpoints, services, monitors, tables and the
# console must show one address. Root drops the capability that permits it.
held=$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)
if [ $((0x$held >> 10 & 1)) = 1 ] && [ -z "${LOW_PORTS_AGAIN:-}" ]; then
    export LOW_PORTS_AGAIN=1
    command -v setpriv >/dev/null || { echo "skipped: setpriv is not installed" && exit 77; }
    exec setpriv --inh-caps=-net_bind_service --bounding-set=-net_bind_service sh "$0"
fi
. "$(dirname "$0")/lib.sh"
need kubectl curl jq
[ "$(cat /proc/sys/net/ipv4/ip_unprivileged_port_start)" -gt 80 ] || skip "everyone may bind port 80 here"

start_up --gpus 2xTesla-T4 --image "intent:1=$intent_api_command"
grep -q '^Port 80 of pods and Services is reached at 8080: .*ip_unprivileged_port_start=80' "$dir/up.log" || fail "nothing says that port 80 moves"
own=$(sed -n 's#.*Prometheus API \(http://[0-9.:]*\).*#\1#p' "$dir/up.log")

kubectl apply -f - <<'Y'
apiVersion: apps/v1
kind: Deployment
metadata: {name: intent}
spec:
  selector: {matchLabels: {app: intent}}
  template:
    metadata: {labels: {app: intent}}
    spec:
      containers:
      - name: api
        image: intent:1
        ports: [{name: web, containerPort: 80}]
        readinessProbe: {httpGet: {path: /ping, port: 80}, periodSeconds: 1, timeoutSeconds: 20}
        livenessProbe: {tcpSocket: {port: web}, periodSeconds: 1, timeoutSeconds: 20, failureThreshold: 10}
        resources: {limits: {nvidia.com/gpu: 1}}
---
apiVersion: v1
kind: Service
metadata: {name: intent, labels: {app: intent}}
spec: {type: LoadBalancer, selector: {app: intent}, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: both}
spec: {selector: {app: intent}, ports: [{name: a, port: 80}, {name: b, port: 8080, targetPort: web}]}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata: {name: by-name}
spec: {jobLabel: none, selector: {matchLabels: {app: intent}}, endpoints: [{port: http, interval: 1s, relabelings: [{targetLabel: via, replacement: service}]}]}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata: {name: by-number}
spec: {selector: {matchLabels: {app: intent}}, endpoints: [{targetPort: 80, interval: 1s, relabelings: [{targetLabel: via, replacement: number}]}]}
---
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata: {name: intent}
spec: {selector: {matchLabels: {app: intent}}, podMetricsEndpoints: [{port: web, interval: 1s, relabelings: [{targetLabel: via, replacement: pod}]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: two}
spec:
  containers:
  - {name: low, image: 'intent:1', ports: [{containerPort: 80}], resources: {limits: {nvidia.com/gpu: 1}}}
  - {name: high, image: any, command: [sleep, '1000'], ports: [{containerPort: 8080}]}
Y
wait_for "the pod is ready" pods_ready intent 1
wait_for "the services listen" sh -c 'test -n "$(kubectl get svc intent -o "jsonpath={.status.loadBalancer.ingress[0].ip}")" && test -n "$(kubectl get svc both -o "jsonpath={.metadata.annotations}")"'

# is WHAT WANT GOT
is() { [ "$2" = "$3" ] || fail "$1: want \"$2\", got \"$3\""; }
says_music() { [ "$(curl -sS --max-time 20 "$1/predict?query=music")" = PlayMusic ]; }

pod=$(kubectl get pods -l app=intent -o 'jsonpath={.items[0].status.podIP}')
is "the pod's record" 80=8080 "$(kubectl get pods -l app=intent -o 'jsonpath={.items[0].metadata.annotations.gpuscale\.dev/ports}')"
wait_for "the pod answers" says_music "http://$pod:8080"
is "the port of the endpoints" 8080 "$(kubectl get endpoints intent -o 'jsonpath={.subsets[0].ports[0].port}')"
is "the slice's port" 8080 "$(kubectl get endpointslices -l kubernetes.io/service-name=intent -o 'jsonpath={.items[0].ports[0].port}')"

# The address that kubectl prints works with curl.
set -- $(kubectl get svc intent --no-headers)
address=$4:${5%%:*}
is "PORT(S)" "$(kubectl get svc intent -o 'jsonpath={.metadata.annotations.gpuscale\.dev/address}')" "$address"
is "the port of the status" "${5%%:*}" "$(kubectl get svc intent -o 'jsonpath={.status.loadBalancer.ingress[0].ports[0].port}')"
wait_for "the load balancer answers at $address" says_music "http://$address"
wait_for "and at the cluster's address" says_music "http://$3:${5%%:*}"
wait_for "the console has the URL" grep -qx "Service: http://$address" "$dir/up.log"
wait_for "an event of the service says so" sh -c 'kubectl get events --field-selector reason=PortMoved | grep -q "service/intent.*instead of port 80"'
wait_for "an event of the pod says so" sh -c 'kubectl get events --field-selector reason=PortMoved | grep -q "pod/intent-.*80=8080"'

# Two ports that would have the same replacement get different ones.
set -- $(kubectl get svc both --no-headers)
low=$(echo "$5" | sed 's#/TCP.*##') high=$(echo "$5" | sed 's#.*,\([0-9]*\)/TCP#\1#')
[ "$low" != "$high" ] || fail "both ports of a service are $low"
wait_for "its first port" says_music "http://$3:$low"
wait_for "its second port" says_music "http://$3:$high"
is "the record of a pod with 80 and 8080" 80=16080 "$(kubectl get pod two -o 'jsonpath={.metadata.annotations.gpuscale\.dev/ports}')"
wait_for "its port answers" says_music "http://$(kubectl get pod two -o 'jsonpath={.status.podIP}'):16080"

up_is() { [ "$(curl -sS -G "$own/api/v1/query" --data-urlencode "query=up{via=\"$1\"}" | jq -r '.data.result | map(.value[1] + " " + .metric.instance + " " + .metric.container) | join(",")')" = "1 $pod:8080 api" ]; }
for via in service number pod; do
    wait_for "the monitor by $via scrapes the pod" up_is "$via"
done

# A program in a pod reaches the service at the service's port.
kubectl run client --image=any --restart=Never --command -- curl -sS "http://$(kubectl get svc intent -o 'jsonpath={.spec.clusterIP}')/predict?query=music"
wait_for "a pod reaches port 80 of the service" sh -c 'kubectl logs client | grep -qx PlayMusic'
stop_up
