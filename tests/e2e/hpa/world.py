"""The objects of the cases in one namespace: scale targets, pods whose state is scripted, autoscalers."""
import time

GROUP = "e2e.example.com"
CROWDS = "/apis/%s/v1/namespaces/%%s/crowds" % GROUP
HPAS = "/apis/autoscaling/v2/namespaces/%s/horizontalpodautoscalers"
HPAS_V1 = "/apis/autoscaling/v1/namespaces/%s/horizontalpodautoscalers"
PODS = "/api/v1/namespaces/%s/pods"
MARK = "gpuscale.dev/autoscaler"

def stamp(seconds_from_now=0):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds_from_now))


def crowd(case):
    return {"apiVersion": GROUP + "/v1", "kind": "Crowd", "metadata": {"name": case["name"]},
            "spec": {"replicas": case.get("replicas", len(case["pods"]))}}


def crowd_status(case):
    app = case.get("app", case["name"])
    return {"status": {"replicas": case.get("status_replicas", len(case["pods"])), "selector": case.get("selector", "app=" + app)}}


def requests(**amounts):
    return {"requests": {k: v for k, v in amounts.items() if v}}


def pod(case, i, p):
    app = case.get("app", case["name"])
    spec = {"schedulerName": "nobody", "containers": [{"name": "main", "image": "any", "resources": requests(cpu=p["cpu"], memory=p["memory"])}]}
    if p.get("sidecar"):
        spec["initContainers"] = [{"name": "helper", "image": "any", "restartPolicy": "Always", "resources": requests(cpu=p["sidecar"])},
                                  {"name": "once", "image": "any", "resources": requests(cpu="3")}]
    if p.get("pod_level"):
        spec["resources"] = requests(cpu=p["pod_level"])
    return {"apiVersion": "v1", "kind": "Pod", "spec": spec,
            "metadata": {"name": "%s-%d" % (app, i), "labels": {"app": app},
                         **({"finalizers": ["e2e.example.com/stays"]} if p.get("finalizer") else {})}}


def pod_status(p):
    status = {"phase": p["phase"]}
    if p["started"] is not None:
        status["startTime"] = stamp(p["started"])
    if p["ready"] is not None:
        since = p.get("since", p["started"] if p["started"] is not None else 0)
        status["conditions"] = [{"type": "Ready", "status": str(p["ready"]), "lastTransitionTime": stamp(since)}]
    return {"status": status}


def autoscaler(case, mark):
    meta = {"name": case["name"], "annotations": {MARK: mark, **case.get("annotations", {})}}
    spec = {"scaleTargetRef": case.get("target", {"apiVersion": GROUP + "/v1", "kind": "Crowd", "name": case["name"]}),
            "minReplicas": case["min"], "maxReplicas": case["max"]}
    if "v1" in case:
        return {"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": meta, "spec": {**spec, **case["v1"]}}
    spec["metrics"] = case["metrics"]
    if "behavior" in case:
        spec["behavior"] = case["behavior"]
    return {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": meta, "spec": spec}


class World:
    def __init__(self, kube, ns, mark):
        self.kube, self.ns, self.mark = kube, ns, mark

    def populate(self, case):
        """Target and pods; the autoscaler comes when all are there."""
        self.kube.create(CROWDS % self.ns, crowd(case))
        self.kube.merge((CROWDS % self.ns) + "/%s/status" % case["name"], crowd_status(case))
        for i, p in enumerate(case["pods"]):
            made = self.kube.create(PODS % self.ns, pod(case, i, p))
            self.kube.merge((PODS % self.ns) + "/%s/status" % made["metadata"]["name"], pod_status(p))

    def clear(self, case):
        """As if the case had never been."""
        name, app = case["name"], case.get("app", case["name"])
        self.kube.delete((HPAS % self.ns) + "/" + name)
        self.kube.delete((CROWDS % self.ns) + "/" + name)
        for p in self.kube.get((PODS % self.ns) + "?labelSelector=app%3D" + app)["items"]:
            self.kube.merge((PODS % self.ns) + "/" + p["metadata"]["name"], {"metadata": {"finalizers": None}})
            if not p["metadata"].get("deletionTimestamp"):
                self.kube.delete((PODS % self.ns) + "/" + p["metadata"]["name"])
        self.kube.delete("/api/v1/namespaces/%s/events?fieldSelector=involvedObject.name%%3D%s" % (self.ns, name))

    def watch_over(self, case):
        self.kube.create((HPAS_V1 if "v1" in case else HPAS) % self.ns, autoscaler(case, self.mark))

    def happen(self, case, what):
        name = case["name"]
        if what[0] == "scale":
            self.kube.merge((CROWDS % self.ns) + "/" + name, {"spec": {"replicas": what[1]}})
        elif what[0] == "selector":
            self.kube.merge((CROWDS % self.ns) + "/%s/status" % name, {"status": {"selector": what[1]}})
        elif what[0] == "spec":
            self.kube.merge((HPAS % self.ns) + "/" + name, {"spec": what[1]})
        elif what[0] == "pod":
            now = {**case["pods"][what[1]], "since": 0, **what[2]}
            self.kube.merge((PODS % self.ns) + "/%s-%d/status" % (name, what[1]), pod_status(now))
        elif what[0] == "delete pod":
            self.kube.delete((PODS % self.ns) + "/%s-%d" % (name, what[1]))
        else:
            raise ValueError(what)

    # --- what came of it ---
    def look(self, names):
        """name -> what both controllers must agree on."""
        seen = {n: {} for n in names}
        for o in self.kube.get(HPAS % self.ns)["items"]:
            if o["metadata"]["name"] in seen:
                seen[o["metadata"]["name"]].update(said(o))
        for name, n in self.replicas().items():
            if name in seen:
                seen[name]["replicas"] = n
        return seen

    def targets(self):
        """The objects, and the resource version of this state."""
        crowds = self.kube.get(CROWDS % self.ns)
        return crowds["items"], crowds["metadata"]["resourceVersion"]

    def changes(self, version):
        """Each (type, object) after this resource version."""
        return self.kube.changes(CROWDS % self.ns, version)

    def replicas(self):
        return {o["metadata"]["name"]: o["spec"]["replicas"] for o in self.targets()[0]}

    def events(self):
        """name -> {(type, reason, message): count}"""
        out = {}
        for e in self.kube.get("/api/v1/namespaces/%s/events" % self.ns)["items"]:
            about = e["involvedObject"]
            if about["kind"] == "HorizontalPodAutoscaler":
                key = (e["type"], e["reason"], e["message"])
                mine = out.setdefault(about["name"], {})
                mine[key] = mine.get(key, 0) + e.get("count", 1)
        return out


def said(o):
    status = o.get("status", {})
    conditions = {c["type"]: "%s %s: %s" % (c["status"], c["reason"], c["message"]) for c in status.get("conditions") or []}
    return {"order of conditions": list(conditions), **conditions,
            "metrics": status.get("currentMetrics"), "current": status.get("currentReplicas", 0),
            "desired": status.get("desiredReplicas"), "scaled": "lastScaleTime" in status,
            "generation": status.get("observedGeneration")}
