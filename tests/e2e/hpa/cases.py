"""Autoscalers, their pods and what is measured, step by step. Pods are scripted and stay as they are
whatever is decided, so that a decision depends on nothing but the step."""

STEPS = 8
ALL = []


# --- parts of a spec ---
def target(value=None, average=None, utilization=None):
    if utilization is not None:
        return {"type": "Utilization", "averageUtilization": utilization}
    if average is not None:
        return {"type": "AverageValue", "averageValue": average}
    return {"type": "Value", "value": value}


def resource(name, **t):
    return {"type": "Resource", "resource": {"name": name, "target": target(**t)}}


def container(name, of, **t):
    return {"type": "ContainerResource", "containerResource": {"name": name, "container": of, "target": target(**t)}}


def metric(name, selector=None):
    return {"name": name, **({"selector": {"matchLabels": selector}} if selector else {})}


def pods(name, average, selector=None):
    return {"type": "Pods", "pods": {"metric": metric(name, selector), "target": target(average=average)}}


def described(name, kind="Service", of="front", version="v1", selector=None, **t):
    return {"type": "Object", "object": {"describedObject": {"kind": kind, "name": of, "apiVersion": version},
                                         "metric": metric(name, selector), "target": target(**t)}}


def external(name, selector=None, **t):
    return {"type": "External", "external": {"metric": metric(name, selector), "target": target(**t)}}


def policy(kind, value, seconds):
    return {"type": kind, "value": value, "periodSeconds": seconds}


def pod(cpu="500m", memory="100Mi", started=-3600, ready=True, phase="Running", **more):
    """started: seconds from now. ready: True, False, "Unknown", None (no condition)."""
    return {"cpu": cpu, "memory": memory, "started": started, "ready": ready, "phase": phase, **more}


def case(name, metrics, steps, pods=4, **more):
    """steps: of each, a dict of what is measured and "do": a list of what happens to the objects."""
    ALL.append({"name": name, "metrics": metrics, "steps": steps, "min": 1, "max": 20,
                "pods": [pod() for _ in range(pods)] if isinstance(pods, int) else pods, **more})


# --- the common load curve ---
# At the target, a rise, noise inside of the tolerance, a spike, a drop, no sample of the first pod
# (or none at all), zero, and back.
CURVE = [1, 1.5, 1.05, 6, .3, None, 0, 1]
assert len(CURVE) == STEPS


def milli(v):
    return "%dm" % round(v * 1000)


def per_pod(key, base, n=4, unit=milli):
    """base: the value of a pod at the target. The pods differ a little, the sum is n times base."""
    def at(f):
        spread = [base * (1 + (i - (n - 1) / 2) / 10) for i in range(n)]
        return [None if f is None and i == 0 else unit(v * (1 if f is None else f)) for i, v in enumerate(spread)]
    return [{key: at(f)} for f in CURVE]


def single(key, base):
    return [{key: None if f is None else milli(base * f)} for f in CURVE]


def several(key, base):
    return [{key: [] if f is None else [milli(base * f / 4), milli(base * f * 3 / 4)]} for f in CURVE]


def whole(v):
    return "%d" % round(v)


# --- every type of metric along the curve ---
case("cpu-utilization", [resource("cpu", utilization=50)], per_pod("cpu-utilization/cpu", .25))
case("cpu-average", [resource("cpu", average="250m")], per_pod("cpu-average/cpu", .25))
case("memory-utilization", [resource("memory", utilization=60)],
     per_pod("memory-utilization/memory", 60 << 20, unit=whole))
case("memory-average", [resource("memory", average="64Mi")], per_pod("memory-average/memory", 64 << 20, unit=whole))
case("container-utilization", [container("cpu", "main", utilization=50)], per_pod("container-utilization/cpu", .25))
case("container-average", [container("memory", "main", average="64Mi")],
     per_pod("container-average/memory", 64 << 20, unit=whole))
case("pods-average", [pods("pods_average", "20")], per_pod("pods_average", 20))
case("pods-fraction", [pods("pods_fraction", "250m")], per_pod("pods_fraction", .25))
case("pods-selector", [pods("pods_selector", "20", {"verb": "GET"})], per_pod("pods_selector{verb=GET}", 20))
case("object-value", [described("object_value", value="100")], single("object_value", 100))
case("object-average", [described("object_average", average="25")], single("object_average", 100))
case("object-namespace", [described("object_namespace", kind="Namespace", value="100")], single("object_namespace", 100))
case("object-deployment", [described("object_deployment", kind="Deployment", version="apps/v1", average="25",
                                     selector={"code": "200"})], single("object_deployment{code=200}", 100))
case("external-value", [external("external_value", value="100")], several("external_value", 100))
case("external-average", [external("external_average", average="25")], several("external_average", 100))
case("external-selector", [external("external_selector", selector={"queue": "q1", "az": "b"}, average="25")],
     several("external_selector{az=b,queue=q1}", 100))
case("several-metrics", [resource("cpu", utilization=50), pods("several_pods", "20"), external("several_ext", average="25")],
     [{**a, **b, **c} for a, b, c in zip(per_pod("several-metrics/cpu", .25), reversed(per_pod("several_pods", 20)),
                                         several("several_ext", 50))])

# --- behavior ---
# Periods of policies are shorter than a step, so that none reaches into the next one.
AT_ONCE = [policy("Percent", 900, 3)]
WINDOWS = {"scaleUp": {"stabilizationWindowSeconds": 6, "policies": AT_ONCE}, "scaleDown": {"stabilizationWindowSeconds": 6}}
for kind, m, steps in (("cpu", [resource("cpu", utilization=50)], per_pod("windows-cpu/cpu", .25)),
                       ("pods", [pods("windows_pods", "20")], per_pod("windows_pods", 20)),
                       ("external", [external("windows_external", average="25")], several("windows_external", 100))):
    case("windows-" + kind, m, steps, behavior=WINDOWS)
case("policy-pods", [pods("policy_pods", "20")], per_pod("policy_pods", 20), behavior={
    "scaleUp": {"policies": [policy("Pods", 3, 5)]},
    "scaleDown": {"stabilizationWindowSeconds": 0, "policies": [policy("Pods", 4, 3)]}})
case("policy-percent", [described("policy_percent", average="25")], single("policy_percent", 100), behavior={
    "scaleUp": {"policies": [policy("Percent", 50, 3)]},
    "scaleDown": {"stabilizationWindowSeconds": 0, "policies": [policy("Percent", 40, 3)]}})
case("policy-min", [pods("policy_min", "20")], per_pod("policy_min", 20), behavior={
    "scaleUp": {"selectPolicy": "Min", "policies": [policy("Pods", 4, 3), policy("Percent", 50, 3)]},
    "scaleDown": {"selectPolicy": "Min", "stabilizationWindowSeconds": 0,
                  "policies": [policy("Pods", 9, 3), policy("Percent", 50, 3)]}})
case("policy-max", [pods("policy_max", "20")], per_pod("policy_max", 20), behavior={
    "scaleUp": {"policies": [policy("Pods", 2, 3), policy("Percent", 50, 3)]},
    "scaleDown": {"stabilizationWindowSeconds": 4, "policies": [policy("Pods", 2, 3), policy("Percent", 50, 3)]}})
case("up-disabled", [pods("up_disabled", "20")], per_pod("up_disabled", 20),
     behavior={"scaleUp": {"selectPolicy": "Disabled"}, "scaleDown": {"stabilizationWindowSeconds": 0}})
case("down-disabled", [pods("down_disabled", "20")], per_pod("down_disabled", 20),
     behavior={"scaleDown": {"selectPolicy": "Disabled"}, "scaleUp": {"policies": AT_ONCE}})
case("behavior-defaults", [pods("behavior_defaults", "20")], per_pod("behavior_defaults", 20), max=7,
     behavior={"scaleUp": {}})
case("tolerances", [pods("tolerances", "100")],
     [{"tolerances": ["%d" % v] * 4} for v in (100, 124, 126, 120, 95, 94, 99, 130)],
     behavior={"scaleUp": {"tolerance": "0.25"}, "scaleDown": {"tolerance": "0.05", "stabilizationWindowSeconds": 0}})
case("tolerance-edge", [resource("cpu", utilization=80)],
     [{"tolerance-edge/cpu": ["%dm" % v] * 4} for v in (400, 440, 445, 444, 360, 355, 359, 400)])

# --- pods that do not count ---
UNREADY = [pod(), pod(), pod(ready=False, started=-3600), pod(phase="Pending", ready=None, started=None)]
case("pending-pods", [pods("pending_pods", "20")], per_pod("pending_pods", 20), pods=UNREADY)
case("pending-cpu", [resource("cpu", utilization=50)], per_pod("pending-cpu/cpu", .25), pods=UNREADY)
case("pending-memory", [resource("memory", average="64Mi")], per_pod("pending-memory/memory", 64 << 20, unit=whole), pods=UNREADY)
case("never-ready", [resource("cpu", average="250m")], per_pod("never-ready/cpu", .25),
     pods=[pod(), pod(), pod(started=-3600, ready=False, since=-3598), pod(started=-3600, ready="Unknown")])
case("just-started", [resource("cpu", utilization=50)], per_pod("just-started/cpu", .25),
     pods=[pod(), pod(), pod(started=0), pod(started=5, ready=False)])
case("finished-pods", [resource("cpu", utilization=50)], per_pod("finished-pods/cpu", .25),
     pods=[pod(), pod(), pod(phase="Failed", ready=False), pod(phase="Succeeded", ready=False)])
case("finished-object", [described("finished_object", value="100")], single("finished_object", 100),
     pods=[pod(), pod(), pod(phase="Failed", ready=False), pod(phase="Succeeded", ready=False)])
case("deleted-pods", [pods("deleted_pods", "20")], per_pod("deleted_pods", 20), pods=[pod(), pod(), pod(finalizer=True), pod()],
     events_at={2: [("delete pod", 2)]})
case("no-pods", [pods("no_pods", "20"), described("no_pods_object", value="10")],
     [{"no_pods": [], "no_pods_object": "20"}] * STEPS, pods=0, replicas=3)
case("no-samples", [resource("cpu", utilization=50)], [{"no-samples/cpu": [None] * 4}] * STEPS)
case("only-pending", [resource("cpu", utilization=50), resource("memory", average="10Mi")],
     [{"only-pending/cpu": ["100m"] * 2, "only-pending/memory": ["20Mi"] * 2}] * STEPS,
     pods=[pod(phase="Pending", ready=None, started=None) for _ in range(2)])
case("readiness-changes", [resource("cpu", utilization=50)], per_pod("readiness-changes/cpu", .25),
     events_at={1: [("pod", 0, {"ready": False})], 3: [("pod", 0, {"ready": True})], 4: [("pod", 1, {"phase": "Pending", "ready": None})]})

# --- requests ---
case("no-request", [resource("cpu", utilization=50)], per_pod("no-request/cpu", .25), pods=[pod(), pod(cpu=None), pod(), pod()])
case("no-request-failed", [resource("cpu", utilization=50)], per_pod("no-request-failed/cpu", .25),
     pods=[pod(), pod(cpu=None, phase="Failed", ready=False), pod(), pod()])
case("sidecar", [container("cpu", "main", utilization=50), resource("cpu", average="300m")],
     [{**a, **b} for a, b in zip(per_pod("sidecar/cpu", .25), per_pod("sidecar/cpu/helper", .05))],
     pods=[pod(sidecar="100m") for _ in range(4)])
case("sidecar-utilization", [resource("cpu", utilization=50)],
     [{**a, **b} for a, b in zip(per_pod("sidecar-utilization/cpu", .25), per_pod("sidecar-utilization/cpu/helper", .05))],
     pods=[pod(sidecar="100m") for _ in range(4)])
case("pod-level", [resource("cpu", utilization=50)], per_pod("pod-level/cpu", .5), pods=[pod(pod_level="1") for _ in range(4)])
case("no-container", [container("cpu", "other", utilization=50)], per_pod("no-container/cpu", .25))
case("no-container-average", [container("cpu", "other", average="1")], per_pod("no-container-average/cpu", .25))

# --- metrics that fail ---
def failing(code, text):
    return ("error", code, text)


ONE_OF_TWO = [
    {"two_a": ["20"] * 4, "two_b": ["20"] * 4}, {"two_a": failing(500, "disk on fire"), "two_b": ["40"] * 4},
    {"two_a": failing(500, "disk on fire"), "two_b": ["5"] * 4}, {"two_a": ["5"] * 4, "two_b": failing(404, "no two_b here")},
    {"two_a": ["60"] * 4, "two_b": failing(404, "no two_b here")},
    {"two_a": failing(503, "asleep"), "two_b": failing(403, "not for you")},
    {"two_a": [], "two_b": ["80"] * 4}, {"two_a": ["20"] * 4, "two_b": ["20"] * 4}]
case("one-of-two", [pods("two_a", "20"), pods("two_b", "20")], ONE_OF_TWO)
case("error-resource", [resource("cpu", utilization=50), container("memory", "main", average="1Mi")],
     [{"error-resource/cpu": failing(c, "because of %d" % c)} for c in (500, 404, 403, 503, 500, 500, 500, 500)])
case("error-object", [described("error_object", value="10"), described("error_object_avg", average="10")],
     [{"error_object": failing(c, "because of %d" % c), "error_object_avg": failing(c, "average %d" % c)}
      for c in (500, 404, 403, 503, 500, 500, 500, 500)])
case("error-external", [external("error_external", value="10"), external("error_external_avg", selector={"a": "b"}, average="10")],
     [{"error_external": failing(c, "because of %d" % c), "error_external_avg{a=b}": failing(c, "average %d" % c)}
      for c in (500, 404, 403, 503, 500, 500, 500, 500)])
case("no-values", [external("no_values", value="10"), described("no_values_object", value="10"), pods("no_values_pods", "3")],
     [{"no_values": [], "no_values_object": [], "no_values_pods": []}] * STEPS)
case("two-values", [described("two_values", value="10")], [{"two_values": ["1", "2"]}] * STEPS)
case("unknown-kind", [described("unknown_kind", kind="Unicorn", version="zoo/v1", value="10")], [{}] * STEPS)
case("many-failures", [pods("many_failures", "20")], [{"many_failures": failing(500, "failure %d" % i)} for i in range(STEPS)])

# --- numbers ---
case("huge", [external("huge_value", value="1"), external("huge_average", average="1m")],
     [{"huge_value": ["9e14"], "huge_average": ["9e15"]}, {"huge_value": ["9e15", "9e15"], "huge_average": ["1"]}] + [{"huge_value": ["4"], "huge_average": ["4m"]}] * 6)
case("tiny", [pods("tiny", "1m")], [{"tiny": ["1u"] * 4}, {"tiny": ["1500u"] * 4}, {"tiny": ["100n"] * 4}, {"tiny": ["0"] * 4}] * 2)
case("negative", [external("negative", value="10")], [{"negative": ["-5"]}, {"negative": ["40"]}, {"negative": ["-40", "60"]}, {"negative": ["20"]}] * 2)
case("suffixes", [pods("suffixes", "1k")], [{"suffixes": ["1k", "1Ki", "1e3", "1000"]}, {"suffixes": ["2k", "2Ki", "2e3", "2000.5"]}] * 4)

# --- limits and zero ---
case("above-max", [pods("above_max", "20")], per_pod("above_max", 20), replicas=9, max=5)
case("below-min", [pods("below_min", "20")], per_pod("below_min", 20), replicas=2, min=6)
case("at-zero", [pods("at_zero", "20")], per_pod("at_zero", 20), replicas=0)
case("to-zero", [external("to_zero", average="25")],
     [{"to_zero": [v]} for v in ("100", "0", "0", "30", "100", "0", "0", "500")], min=0)
case("to-zero-object", [described("to_zero_object", value="10")],
     [{"to_zero_object": v} for v in ("10", "0", "0", "15", "10", "0", "0", "25")], min=0,
     behavior={"scaleDown": {"stabilizationWindowSeconds": 0}, "scaleUp": {"policies": AT_ONCE}})
case("paused", [external("paused", average="25")], [{"paused": ["100"]}] * STEPS, min=0,
     events_at={1: [("scale", 0)], 3: [("scale", 2)], 5: [("scale", 0)]})
case("by-hand", [pods("by_hand", "20")], [{"by_hand": ["20"] * 4}] * STEPS,
     events_at={1: [("scale", 1)], 3: [("scale", 30)], 5: [("scale", 7)], 6: [("scale", 0)], 7: [("scale", 3)]})
case("spec-changes", [pods("spec_changes", "20")], [{"spec_changes": ["40"] * 4}] * STEPS,
     events_at={1: [("spec", {"maxReplicas": 6})], 2: [("spec", {"maxReplicas": 20, "minReplicas": 10})],
                3: [("spec", {"metrics": [pods("spec_changes", "10")]})],
                5: [("spec", {"behavior": {"scaleUp": {"selectPolicy": "Disabled"}}, "maxReplicas": 30})],
                6: [("spec", {"metrics": [pods("nothing", "10")]})]})
case("status-replicas", [external("status_replicas", average="25"), described("status_replicas_object", average="25")],
     [{"status_replicas": [v], "status_replicas_object": v} for v in ("100", "110", "200", "75", "0", "52", "50", "100")],
     status_replicas=2, replicas=4)

# --- targets ---
case("no-target", [pods("no_target", "20")], [{}] * STEPS, target={"apiVersion": "e2e.example.com/v1", "kind": "Crowd", "name": "nobody"})
case("no-such-kind", [pods("no_such_kind", "20")], [{}] * STEPS, target={"apiVersion": "zoo/v1", "kind": "Unicorn", "name": "u"})
case("no-scale", [pods("no_scale", "20")], [{}] * STEPS, target={"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d"})
case("no-selector", [pods("no_selector", "20")], [{}] * STEPS, selector="")
case("bad-selector", [pods("bad_selector", "20")], [{}] * STEPS, selector="a in (")
case("twice-a", [pods("twice_a", "20")], [{"twice_a": ["20"] * 4}] * STEPS)
case("twice-b", [pods("twice_b", "20")], [{"twice_b": ["20"] * 4}] * STEPS,
     events_at={2: [("selector", "app=twice-a")], 5: [("selector", "app=twice-b")]})

# --- as an object of autoscaling/v1 ---
case("version-1", None, per_pod("version-1/cpu", .25), v1={"targetCPUUtilizationPercentage": 50})
case("version-1-annotated", None, [{**a, **b} for a, b in zip(per_pod("version-1-annotated/cpu", .25), per_pod("v1_pods", 20))],
     v1={"targetCPUUtilizationPercentage": 50}, annotations={
         "autoscaling.alpha.kubernetes.io/metrics": '[{"type":"Pods","pods":{"metricName":"v1_pods","targetAverageValue":"20"}}]',
         "autoscaling.alpha.kubernetes.io/behavior": '{"ScaleUp":{"StabilizationWindowSeconds":4,"Policies":[{"Type":"Pods","Value":3,"PeriodSeconds":4}]}}'})
case("no-metrics", [], per_pod("no-metrics/cpu", .4))
