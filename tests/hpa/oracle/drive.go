// SPDX-License-Identifier: Apache-2.0

// Passes of kube-controller-manager's own autoscaler as decision tables. The package is compiled
// into a copy of k8s.io/kubernetes/pkg/controller/podautoscaler (see build), so that one release's
// controller runs with its memory, on scales, pods and metrics made up here. Its clock is the real
// one: between two passes everything that it remembers is moved into the past.
//
// Lines that end in "//@ N-" are of releases 1.N and later, "//@ -N" of those up to 1.N.
package podautoscaler

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand"
	"os"
	"strings"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"      //@ 23-
	autoscalingv2 "k8s.io/api/autoscaling/v2beta2" //@ -22
	v1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilfeature "k8s.io/apiserver/pkg/util/feature"                         //@ 36-
	autoscalingclient "k8s.io/client-go/kubernetes/typed/autoscaling/v1"    //@ -22
	autoscalingclient "k8s.io/client-go/kubernetes/typed/autoscaling/v2"    //@ 23-
	corelisters "k8s.io/client-go/listers/core/v1"
	scaleclient "k8s.io/client-go/scale"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install" //@ -22
	metricsclient "k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"
	"k8s.io/kubernetes/pkg/controller/podautoscaler/monitor" //@ 27-
	"k8s.io/kubernetes/pkg/controller/util/selectors"        //@ 26-
)

const (
	release  = RELEASE
	ns, name = "shop", "web"
	key      = ns + "/" + name
)

type object = map[string]interface{}
type list = []interface{}

// --- what the controller sees ---

type sample struct {
	pod    string
	value  int64 // milli
	age    float64
	window float64
}

type metric struct {
	samples []sample
	err     string
}

type cluster struct {
	specReplicas, statusReplicas int32
	selector, scaleError         string
	writeError                   string
	wrote                        bool
	attempted                    int32
	metrics                      map[string]*metric
	now                          time.Time
	events                       []string
	status                       *autoscalingv2.HorizontalPodAutoscalerStatus
}

func (c *cluster) Scales(string) scaleclient.ScaleInterface { return &scales{c: c} }

type scales struct {
	scaleclient.ScaleInterface
	c *cluster
}

func (s *scales) Get(context.Context, schema.GroupResource, string, metav1.GetOptions) (*autoscalingv1.Scale, error) {
	if s.c.scaleError != "" {
		return nil, errors.New(s.c.scaleError)
	}
	return &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: ns},
		Spec:       autoscalingv1.ScaleSpec{Replicas: s.c.specReplicas},
		Status:     autoscalingv1.ScaleStatus{Replicas: s.c.statusReplicas, Selector: s.c.selector},
	}, nil
}

func (s *scales) Update(_ context.Context, _ schema.GroupResource, scale *autoscalingv1.Scale, _ metav1.UpdateOptions) (*autoscalingv1.Scale, error) {
	s.c.attempted = scale.Spec.Replicas
	s.c.wrote = true
	if s.c.writeError != "" {
		return nil, errors.New(s.c.writeError)
	}
	s.c.specReplicas = scale.Spec.Replicas
	return scale, nil
}

type mapper struct{ apimeta.RESTMapper }

func (mapper) RESTMappings(gk schema.GroupKind, versions ...string) ([]*apimeta.RESTMapping, error) {
	return []*apimeta.RESTMapping{{
		Resource:         schema.GroupVersionResource{Group: gk.Group, Version: "v1", Resource: "deployments"},
		GroupVersionKind: gk.WithVersion("v1"),
	}}, nil
}

type objects struct {
	autoscalingclient.HorizontalPodAutoscalerInterface
	c *cluster
}

func (c *cluster) HorizontalPodAutoscalers(string) autoscalingclient.HorizontalPodAutoscalerInterface {
	return &objects{c: c}
}

func (o *objects) UpdateStatus(_ context.Context, hpa *autoscalingv2.HorizontalPodAutoscaler, _ metav1.UpdateOptions) (*autoscalingv2.HorizontalPodAutoscaler, error) { //@ 23-
func (o *objects) UpdateStatus(_ context.Context, old *autoscalingv1.HorizontalPodAutoscaler, _ metav1.UpdateOptions) (*autoscalingv1.HorizontalPodAutoscaler, error) { //@ -22
	converted, err := unsafeConvertToVersionVia(old.DeepCopy(), autoscalingv2.SchemeGroupVersion) //@ -22
	check(err)                                                                                   //@ -22
	hpa := converted.(*autoscalingv2.HorizontalPodAutoscaler)                                    //@ -22
	o.c.status = hpa.Status.DeepCopy()
	return hpa, nil //@ 23-
	return old, nil //@ -22
}

func (c *cluster) Event(_ runtime.Object, _, reason, message string) {
	c.events = append(c.events, reason+": "+message)
}
func (c *cluster) Eventf(o runtime.Object, kind, reason, format string, args ...interface{}) {
	c.Event(o, kind, reason, fmt.Sprintf(format, args...))
}
func (c *cluster) AnnotatedEventf(o runtime.Object, _ map[string]string, kind, reason, format string, args ...interface{}) {
	c.Event(o, kind, reason, fmt.Sprintf(format, args...))
}

func (c *cluster) pods(key string) (metricsclient.PodMetricsInfo, time.Time, error) {
	m := c.metrics[key]
	if m.err != "" {
		return nil, time.Time{}, errors.New(m.err)
	}
	info := metricsclient.PodMetricsInfo{}
	for _, s := range m.samples {
		info[s.pod] = metricsclient.PodMetric{
			Timestamp: c.now.Add(-seconds(s.age)), Window: seconds(s.window), Value: s.value}
	}
	return info, c.now, nil
}

func (c *cluster) GetResourceMetric(ctx context.Context, r v1.ResourceName, _ string, _ labels.Selector, container string) (metricsclient.PodMetricsInfo, time.Time, error) { //@ 23-
func (c *cluster) GetResourceMetric(r v1.ResourceName, _ string, _ labels.Selector, container string) (metricsclient.PodMetricsInfo, time.Time, error) { //@ -22
	return c.pods(string(r) + container)
}
func (c *cluster) GetRawMetric(metric, _ string, _, _ labels.Selector) (metricsclient.PodMetricsInfo, time.Time, error) {
	return c.pods(metric)
}
func (c *cluster) GetObjectMetric(metric, _ string, _ *autoscalingv2.CrossVersionObjectReference, _ labels.Selector) (int64, time.Time, error) {
	if c.metrics[metric].err != "" {
		return 0, time.Time{}, errors.New(c.metrics[metric].err)
	}
	return c.metrics[metric].samples[0].value, c.now, nil
}
func (c *cluster) GetExternalMetric(metric, _ string, _ labels.Selector) ([]int64, time.Time, error) {
	if c.metrics[metric].err != "" {
		return nil, time.Time{}, errors.New(c.metrics[metric].err)
	}
	var values []int64
	for _, s := range c.metrics[metric].samples {
		values = append(values, s.value)
	}
	return values, c.now, nil
}

// --- the controller ---

func newController(c *cluster, pods cache.Indexer, window time.Duration) *HorizontalController {
	lister := corelisters.NewPodLister(pods)
	a := &HorizontalController{
		eventRecorder:                c,
		scaleNamespacer:              c,
		hpaNamespacer:                c,
		mapper:                       mapper{},
		downscaleStabilisationWindow: window,
		podLister:                    lister,
		recommendations:              map[string][]timestampedRecommendation{},
		scaleUpEvents:                map[string][]timestampedScaleEvent{},
		scaleDownEvents:              map[string][]timestampedScaleEvent{},
		tolerance:                    0.1,                     //@ 33-
		hpaSelectors:                 selectors.NewBiMultimap(), //@ 26-
		monitor:                      monitor.New(),           //@ 27-
	}
	a.containerResourceMetricsEnabled = true //@ 27-29
	_ = workqueue.DefaultControllerRateLimiter //@ -22
	_ = workqueue.ParallelizeUntil             //@ 23-
	a.replicaCalc = NewReplicaCalculator(c, lister, 0.1, 5*time.Minute, 30*time.Second) //@ -32
	a.replicaCalc = NewReplicaCalculator(c, lister, 5*time.Minute, 30*time.Second)      //@ 33-
	return a
}

func (a *HorizontalController) age(d time.Duration) {
	for i := range a.recommendations[key] {
		a.recommendations[key][i].timestamp = a.recommendations[key][i].timestamp.Add(-d)
	}
	for _, events := range []map[string][]timestampedScaleEvent{a.scaleUpEvents, a.scaleDownEvents} {
		for i := range events[key] {
			events[key][i].timestamp = events[key][i].timestamp.Add(-d)
		}
	}
}

func (a *HorizontalController) pass(hpa *autoscalingv2.HorizontalPodAutoscaler) {
	_ = a.reconcileAutoscaler(context.Background(), hpa, key) //@ 23-
	old, err := unsafeConvertToVersionVia(hpa.DeepCopy(), autoscalingv1.SchemeGroupVersion) //@ -22
	check(err)                                                                             //@ -22
	_ = a.reconcileAutoscaler(old.(*autoscalingv1.HorizontalPodAutoscaler), key)           //@ -22
}

// --- chance ---

func pick(r *rand.Rand, of ...int64) int64 { return of[r.Intn(len(of))] }
func word(r *rand.Rand, of ...string) string { return of[r.Intn(len(of))] }
func milli(v int64) string                   { return fmt.Sprintf("%dm", v) }
func seconds(s float64) time.Duration        { return time.Duration(math.Round(s * 1e9)) }
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// A metric's spec, the key that the metrics client is asked with, and what a sample is near.
type source struct {
	spec   object
	key    string
	near   int64
	ofPods bool
	shared bool // the value is for all replicas
}

func makeSource(r *rand.Rand, i int) source {
	key := fmt.Sprintf("m%d", i)
	target := pick(r, 100, 500, 1000, 7500, 20000, 60000)
	average := object{"type": "AverageValue", "averageValue": milli(target)}
	value := object{"type": "Value", "value": milli(target)}
	switch r.Intn(9) {
	case 0, 1:
		res := []string{"cpu", "memory", "nvidia.com/gpu"}[i%3]
		percent := pick(r, 30, 50, 80, 120)
		return source{object{"type": "Resource", "resource": object{"name": res, "target": object{"type": "Utilization", "averageUtilization": percent}}}, res, percent * 10, true, false}
	case 2:
		res := []string{"cpu", "memory", "nvidia.com/gpu"}[i%3]
		return source{object{"type": "Resource", "resource": object{"name": res, "target": average}}, res, target, true, false}
	case 3:
		percent := pick(r, 30, 50, 80, 120)
		return source{object{"type": "ContainerResource", "containerResource": object{"name": "cpu", "container": "app", "target": object{"type": "Utilization", "averageUtilization": percent}}}, "cpuapp", percent * 10, true, false}
	case 4, 5:
		return source{object{"type": "Pods", "pods": object{"metric": object{"name": key}, "target": average}}, key, target, true, false}
	case 6:
		t := value
		if r.Intn(2) == 0 {
			t = average
		}
		return source{object{"type": "Object", "object": object{"describedObject": object{"apiVersion": "v1", "kind": "Service", "name": "web"}, "metric": object{"name": key}, "target": t}}, key, target, false, t["type"] == "AverageValue"}
	default:
		t := value
		if r.Intn(2) == 0 {
			t = average
		}
		m := object{"name": key}
		if r.Intn(4) == 0 {
			m["selector"] = object{"matchLabels": object{"queue": "a"}}
		}
		return source{object{"type": "External", "external": object{"metric": m, "target": t}}, key, target, false, t["type"] == "AverageValue"}
	}
}

func makeRules(r *rand.Rand, up bool) object {
	rules := object{"selectPolicy": word(r, "Max", "Max", "Max", "Min", "Disabled")}
	if up || r.Intn(3) > 0 {
		rules["stabilizationWindowSeconds"] = pick(r, 0, 0, 30, 60, 300)
	}
	policies := list{}
	for n := 1 + r.Intn(3); n > 0; n-- {
		if r.Intn(2) == 0 {
			policies = append(policies, object{"type": "Pods", "value": pick(r, 1, 2, 4, 10), "periodSeconds": pick(r, 15, 60, 120, 300)})
		} else {
			policies = append(policies, object{"type": "Percent", "value": pick(r, 5, 10, 50, 100, 200), "periodSeconds": pick(r, 15, 60, 120, 300)})
		}
	}
	rules["policies"] = policies
	if r.Intn(4) == 0 {
		rules["tolerance"] = word(r, "0", "50m", "200m", "500m")
	}
	return rules
}

// --- a case ---

type drawn struct {
	spec    object
	sources []source
	gate    bool
	window  int64
}

func makeSpec(r *rand.Rand) drawn {
	d := drawn{gate: r.Intn(3) == 0, window: pick(r, 300, 300, 60, 0)}
	outside := false
	metrics := list{}
	for n := []int{1, 1, 1, 2, 3}[r.Intn(5)]; len(d.sources) < n; {
		s := makeSource(r, len(d.sources))
		for _, other := range d.sources {
			if other.key == s.key {
				s.key = ""
			}
		}
		if s.key == "" {
			continue
		}
		outside = outside || !s.ofPods
		d.sources = append(d.sources, s)
		metrics = append(metrics, s.spec)
	}
	min := pick(r, 1, 1, 2, 3)
	if outside && d.gate && r.Intn(2) == 0 {
		min = 0
	}
	d.spec = object{"minReplicas": min, "maxReplicas": pick(r, 5, 10, 40, 1000), "metrics": metrics}
	if r.Intn(10) < 6 {
		d.spec["behavior"] = object{"scaleUp": makeRules(r, true), "scaleDown": makeRules(r, false)}
	}
	return d
}

func makePod(r *rand.Rand, i int, now time.Time) (object, *v1.Pod) {
	request := pick(r, 100, 500, 1000)
	quantity := *resource.NewMilliQuantity(request, resource.DecimalSI)
	in := object{"request": milli(request)}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d", i), Namespace: ns, Labels: map[string]string{"app": "web"}},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app", Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{"cpu": quantity, "memory": quantity, "nvidia.com/gpu": quantity}}}}},
		Status: v1.PodStatus{Phase: v1.PodRunning},
	}
	started, since, ready := -3600.5, -3590.5, v1.ConditionTrue
	switch r.Intn(24) {
	case 0:
		pod.Status.Phase, ready = v1.PodPending, v1.ConditionFalse
	case 1:
		pod.Status.Phase, ready = v1.PodFailed, v1.ConditionFalse
	case 2:
		deleted := metav1.NewTime(now)
		pod.DeletionTimestamp = &deleted
		in["deleting"] = true
	case 3:
		started, since, ready = -100.5, -99.5, v1.ConditionFalse
	case 4:
		started, since = -100.5, -float64(r.Intn(90))-0.5
	case 5:
		started, since, ready = -1000.5, -990.5+float64(r.Intn(40)), v1.ConditionFalse
	case 6:
		pod.Status.Phase, ready = v1.PodSucceeded, v1.ConditionFalse
	}
	startTime := metav1.NewTime(now.Add(seconds(started)))
	pod.Status.StartTime = &startTime
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: ready,
		LastTransitionTime: metav1.NewTime(now.Add(seconds(since)))}}
	if started != -3600.5 || ready != v1.ConditionTrue {
		in["phase"], in["ready"], in["started"], in["readySince"] = string(pod.Status.Phase), string(ready), started, since
	}
	return in, pod
}

func makeSamples(r *rand.Rand, s source, pods []object, level float64, replicas int32) *metric {
	m := &metric{}
	if r.Intn(20) == 0 {
		m.err = "no answer"
		return m
	}
	// Nearly around the target, so that the tolerance matters.
	value := func() int64 { return int64(float64(s.near) * level * (0.97 + 0.06*r.Float64())) }
	if !s.ofPods {
		for n := 1 + r.Intn(2); n > 0; n-- {
			v := value()
			if s.shared {
				v *= int64(replicas)
			}
			m.samples = append(m.samples, sample{"x", v, 0.25, 60})
			if s.spec["type"] == "Object" {
				break
			}
		}
		return m
	}
	for i := range pods {
		if r.Intn(16) == 0 {
			continue
		}
		v := value()
		if target, _ := json.Marshal(s.spec); strings.Contains(string(target), "Utilization") {
			q := resource.MustParse(pods[i]["request"].(string))
			v = v * q.MilliValue() / 1000
		}
		m.samples = append(m.samples, sample{fmt.Sprintf("pod-%d", i), v, float64(r.Intn(30)) + 0.25, float64(pick(r, 15, 30, 60))})
	}
	return m
}

func shownMetrics(c *cluster) interface{} {
	if c.status == nil || c.status.CurrentMetrics == nil {
		return nil
	}
	shown := list{}
	for _, m := range c.status.CurrentMetrics {
		e := object{"ok": m.Type != ""}
		var v autoscalingv2.MetricValueStatus
		switch {
		case m.Resource != nil:
			v = m.Resource.Current
		case m.ContainerResource != nil:
			v = m.ContainerResource.Current
		case m.Pods != nil:
			v = m.Pods.Current
		case m.Object != nil:
			v = m.Object.Current
		case m.External != nil:
			v = m.External.Current
		}
		if v.AverageUtilization != nil {
			e["utilization"] = *v.AverageUtilization
		}
		if v.AverageValue != nil && (release > 22 || c.statusReplicas > 0) { // converted, the smallest is 0
			e["average"] = milli(v.AverageValue.MilliValue())
			outside := m.Object != nil || m.External != nil
			if outside && c.statusReplicas == 0 && release < 38 { // divided by zero replicas; ours has none
				e["average"] = nil
			}
		}
		if v.Value != nil && (release > 22 || v.AverageValue == nil) { // converted, it is never nil
			e["value"] = milli(v.Value.MilliValue())
		}
		shown = append(shown, e)
	}
	return shown
}

type run struct {
	r     *rand.Rand
	d     drawn
	c     *cluster
	a     *HorizontalController
	hpa   *autoscalingv2.HorizontalPodAutoscaler
	pods  cache.Indexer
	level float64

	maxPods int
	brief   bool
}

func (x *run) setUp(step object) {
	r, c := x.r, x.c
	scale := object{"selector": "app=web"}
	c.scaleError, c.writeError, c.selector, c.wrote, c.events = "", "", "app=web", false, nil
	switch r.Intn(30) {
	case 0:
		c.specReplicas = int32(r.Intn(12))
	case 1:
		c.scaleError = "the server could not find the requested resource"
		scale["error"] = c.scaleError
	case 2:
		c.writeError = "boom"
	case 3:
		c.selector = ""
		scale["selector"] = ""
	}
	c.statusReplicas = c.specReplicas
	scale["spec"], scale["status"] = c.specReplicas, c.statusReplicas
	for _, condition := range x.hpa.Status.Conditions {
		if string(condition.Type) == "ScaledToZero" {
			scale["scaledToZero"] = condition.Status == v1.ConditionTrue
		}
	}
	step["scale"] = scale
	for _, o := range x.pods.List() {
		check(x.pods.Delete(o))
	}
	var pods []object
	n := int(c.specReplicas)
	if n > x.maxPods {
		n = x.maxPods
	}
	for i := 0; i < n; i++ {
		in, pod := makePod(r, i, c.now)
		check(x.pods.Add(pod))
		pods = append(pods, in)
	}
	step["pods"] = append([]object{}, pods...)
	if r.Intn(3) == 0 {
		x.level = []float64{0, 0.3, 0.6, 0.9, 1, 1.1, 1.4, 2, 5}[r.Intn(9)]
	}
	metrics := list{}
	for _, s := range x.d.sources {
		m := makeSamples(r, s, pods, x.level, c.specReplicas)
		if m.err == "" && len(m.samples) == 0 && s.ofPods {
			m.err = "no metrics returned"
		}
		c.metrics[s.key] = m
		if m.err != "" {
			metrics = append(metrics, object{"error": m.err})
			continue
		}
		samples := list{}
		for _, v := range m.samples {
			if v.pod == fmt.Sprintf("pod-%d", len(samples)) && s.key != "cpu" && s.key != "cpuapp" {
				samples = append(samples, milli(v.value)) // its age does not matter
			} else {
				samples = append(samples, object{"pod": v.pod, "value": milli(v.value), "age": v.age, "window": v.window})
			}
		}
		metrics = append(metrics, object{"samples": samples})
	}
	step["metrics"] = metrics
}

func (x *run) expected() object {
	c := x.c
	e := object{"events": append([]string{}, c.events...), "desired": c.specReplicas}
	if c.wrote {
		e["desired"] = c.attempted
	}
	if c.scaleError != "" {
		e["desired"] = 0
	}
	conditions := object{}
	for _, name := range []string{"AbleToScale", "ScalingActive", "ScalingLimited"} {
		conditions[name] = nil
	}
	status := c.status
	if status == nil { // nothing that differs
		status = &x.hpa.Status
	}
	for _, condition := range status.Conditions {
		if string(condition.Type) != "ScaledToZero" || c.wrote && c.writeError == "" {
			conditions[string(condition.Type)] = fmt.Sprintf("%s %s: %s", condition.Status, condition.Reason, condition.Message)
			if x.brief && strings.Contains("SucceededGetScale ReadyForNewScale ValidMetricFound DesiredWithinRange", condition.Reason) {
				conditions[string(condition.Type)] = fmt.Sprintf("%s %s", condition.Status, condition.Reason)
			}
		}
	}
	e["conditions"] = conditions
	kept := release < 29 && c.writeError != "" // the metrics of the pass before are shown
	if c.status != nil && !kept && c.scaleError == "" && !strings.Contains(fmt.Sprint(c.events), "FailedComputeMetricsReplicas") {
		e["metrics"] = shownMetrics(c)
	}
	return e
}

func (x *run) pass(at float64, last bool) object {
	step := object{"at": at}
	x.c.now = time.Now()
	x.c.status = nil
	x.setUp(step)
	x.a.pass(x.hpa)
	step["expect"] = x.expected()
	if x.c.wrote && x.c.writeError == "" {
		step["write"] = "done"
	} else if x.c.wrote {
		step["write"] = object{"error": x.c.writeError}
	}
	// Only what says whether it went to zero itself is kept: what a pass does not touch shows.
	var kept []autoscalingv2.HorizontalPodAutoscalerCondition
	if x.c.status != nil {
		for _, condition := range x.c.status.Conditions {
			if string(condition.Type) == "ScaledToZero" {
				kept = append(kept, condition)
			}
		}
		x.hpa.Status = autoscalingv2.HorizontalPodAutoscalerStatus{Conditions: kept}
	}
	return step
}

func makeCase(seed int64, maxPods, maxSteps int, brief bool) object {
	r := rand.New(rand.NewSource(seed))
	d := makeSpec(r)
	check(utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{"HPAScaleToZero": d.gate, "HPAConfigurableTolerance": true})) //@ 36-
	c := &cluster{specReplicas: int32(1 + r.Intn(6)), metrics: map[string]*metric{}}
	pods := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	hpa := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: ns}}
	text, err := json.Marshal(d.spec)
	check(err)
	check(json.Unmarshal(text, &hpa.Spec))
	hpa.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name}
	x := run{r, d, c, newController(c, pods, time.Duration(d.window)*time.Second), hpa, pods, 1, maxPods, brief}
	var steps list
	at := int64(0)
	for i, n := 0, 1+maxSteps/4+r.Intn(maxSteps*3/4); i < n; i++ {
		steps = append(steps, x.pass(float64(at)/1000, i == n-1))
		// A millisecond more each time: no two passes are a whole number of seconds apart.
		by := pick(r, 5, 15, 15, 15, 15, 30, 60, 120, 310)*1000 + 1
		at += by
		x.a.age(time.Duration(by) * time.Millisecond)
	}
	return object{
		"name":   fmt.Sprintf("1.%d, seed %d", release, seed),
		"config": object{"compat": fmt.Sprintf("1.%d", release), "scaleToZero": d.gate, "downscaleWindow": d.window},
		"spec":   d.spec,
		"steps":  steps,
	}
}

// Drive prints so many cases, JSON documents behind "---".
func Drive() {
	n := flag.Int64("cases", 100, "how many")
	first := flag.Int64("seed", 1, "of the first")
	pods := flag.Int("pods", 12, "at most so many")
	steps := flag.Int("steps", 30, "at most so many")
	brief := flag.Bool("brief", false, "without the messages of what is usual")
	flag.Parse()
	for i := int64(0); i < *n; i++ {
		out, err := json.Marshal(makeCase(*first+i, *pods, *steps, *brief))
		check(err)
		fmt.Fprintf(os.Stdout, "---\n%s\n", out)
	}
}
