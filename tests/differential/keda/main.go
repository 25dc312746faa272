// SPDX-License-Identifier: Apache-2.0
// KEDA's own code for one ScaledObject after another: its Prometheus scaler, fallback and scale executor, and the autoscaler that it
// creates. It is built in the tree of KEDA's module (tests/e2e/keda-build.sh). It prints its version, and then reads and writes
// JSON, one document a line:
//
//	{"object": {…}}                                        {"hpa": {the spec of the autoscaler}}
//	{"seconds": 15, "replicas": 2, "samples": ["7", null]} {"triggers": [{"milli": 7000, "active": true}, …], "active": true,
//	                                                        "replicas": 2}
//
// A step has the time since the object was created, the replicas of its target, and a sample of each trigger as Prometheus
// prints it (null: no series). The answer has what the autoscaler reads, without milli after an error, whether the object is
// active, and the replicas that the executor leaves.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/scale"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kedav1alpha1 "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	"github.com/kedacore/keda/v2/pkg/fallback"
	"github.com/kedacore/keda/v2/pkg/scalers"
	"github.com/kedacore/keda/v2/pkg/scalers/scalersconfig"
	"github.com/kedacore/keda/v2/pkg/scaling/executor"
)

// --- a cluster with one Deployment ---

type cluster struct {
	client.Client
	replicas int32
}

func (c *cluster) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	deployment, ok := o.(*appsv1.Deployment)
	if !ok {
		return fmt.Errorf("only Deployments exist, not %T", o)
	}
	replicas := c.replicas
	deployment.Spec.Replicas = &replicas
	return nil
}

type status struct{ client.SubResourceWriter }

func (status) Patch(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	return nil
}
func (c *cluster) Status() client.SubResourceWriter { return status{} }

type scales struct {
	scale.ScaleInterface
	c *cluster
}

func (c *cluster) Scales(string) scale.ScaleInterface { return scales{c: c} }
func (s scales) Get(context.Context, schema.GroupResource, string, metav1.GetOptions) (*autoscalingv1.Scale, error) {
	return &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: s.c.replicas}}, nil
}
func (s scales) Update(_ context.Context, _ schema.GroupResource, o *autoscalingv1.Scale, _ metav1.UpdateOptions) (*autoscalingv1.Scale, error) {
	s.c.replicas = o.Spec.Replicas
	return o, nil
}

type noEvents struct{}

func (noEvents) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...interface{}) {
}

// --- a Prometheus whose query N has the sample of trigger N ---

var samples []*string

func servePrometheus(w http.ResponseWriter, r *http.Request) {
	result := "[]"
	i, err := strconv.Atoi(r.URL.Query().Get("query"))
	if err == nil && i >= 0 && i < len(samples) && samples[i] != nil {
		result = fmt.Sprintf(`[{"metric":{},"value":[0,%q]}]`, *samples[i])
	}
	fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":%s}}`, result)
}

// --- an object ---

type object struct {
	so       *kedav1alpha1.ScaledObject
	scalers  []scalers.Scaler
	specs    []autoscalingv2.MetricSpec
	c        *cluster
	executor executor.ScaleExecutor
	lock     sync.RWMutex
	active   *int64 // the time of the last activity
}

// What a query needs, and not what the connection needs.
var queryKeys = []string{"threshold", "activationThreshold", "ignoreNullValues"}

func newObject(so *kedav1alpha1.ScaledObject, address string) (*object, error) {
	o := &object{so: so, c: &cluster{}}
	so.Status.ScaleTargetGVKR = &kedav1alpha1.GroupVersionKindResource{Group: "apps", Version: "v1", Kind: "Deployment", Resource: "deployments"}
	so.Status.Conditions = *kedav1alpha1.GetInitializedConditions()
	for i, t := range so.Spec.Triggers {
		if t.Type != "prometheus" {
			return nil, fmt.Errorf("trigger %d has the type %s", i, t.Type)
		}
		metadata := map[string]string{"serverAddress": address, "query": strconv.Itoa(i)}
		for _, key := range queryKeys {
			if v, ok := t.Metadata[key]; ok {
				metadata[key] = v
			}
		}
		s, err := scalers.NewPrometheusScaler(&scalersconfig.ScalerConfig{
			ScalableObjectName: so.Name, ScalableObjectNamespace: so.Namespace, ScalableObjectType: "ScaledObject",
			GlobalHTTPTimeout: time.Minute, TriggerName: t.Name, TriggerType: t.Type, TriggerMetadata: metadata,
			TriggerIndex: i, MetricType: t.MetricType, Recorder: noEvents{}, ScaledObject: so,
		})
		if err != nil {
			return nil, err
		}
		o.scalers = append(o.scalers, s)
		o.specs = append(o.specs, s.GetMetricSpecForScaling(context.Background())...)
	}
	o.executor = executor.NewScaleExecutor(o.c, o.c, nil, time.Minute, noEvents{})
	return o, nil
}

func (o *object) hpa() autoscalingv2.HorizontalPodAutoscalerSpec {
	spec := autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: o.so.Spec.ScaleTargetRef.Name},
		MinReplicas:    o.so.GetHPAMinReplicas(), MaxReplicas: o.so.GetHPAMaxReplicas(), Metrics: o.specs,
	}
	if a := o.so.Spec.Advanced; a != nil && a.HorizontalPodAutoscalerConfig != nil {
		spec.Behavior = a.HorizontalPodAutoscalerConfig.Behavior
	}
	return spec
}

type trigger struct {
	Milli    *int64 `json:"milli,omitempty"`
	Active   bool   `json:"active"`
	Fallback bool   `json:"fallback"`
}

func (o *object) read(i int) (trigger, error) {
	ctx, name := context.Background(), o.specs[i].External.Metric.Name
	values, active, err := o.scalers[i].GetMetricsAndActivity(ctx, name)
	h := fallback.ScaledObjectHandler{Ctx: ctx, KubeClient: o.c, ScaleClient: o.c, UpdateLock: &o.lock, ScaledObject: o.so}
	values, isFallback, err := fallback.GetMetricsWithFallback(h, values, err, name, o.specs[i])
	t := trigger{Active: err == nil && (active || isFallback), Fallback: isFallback}
	if err == nil && len(values) == 1 {
		milli := values[0].Value.MilliValue()
		t.Milli = &milli
	}
	return t, err
}

type step struct {
	Triggers []trigger `json:"triggers"`
	Active   bool      `json:"active"`
	Replicas int32     `json:"replicas"`
}

func (o *object) step(seconds int64, replicas int32) (*step, error) {
	out, failed, now := &step{}, false, time.Now()
	o.c.replicas = replicas
	for i := range o.scalers {
		t, err := o.read(i)
		failed = failed || err != nil
		out.Active = out.Active || t.Active
		out.Triggers = append(out.Triggers, t)
	}
	// The executor reads the clock: its times are moved instead.
	o.so.CreationTimestamp = metav1.NewTime(now.Add(-time.Duration(seconds) * time.Second))
	o.so.Status.LastActiveTime = nil
	if o.active != nil {
		o.so.Status.LastActiveTime = &metav1.Time{Time: now.Add(-time.Duration(seconds-*o.active) * time.Second)}
	}
	result := o.executor.RequestScale(context.Background(), o.so, out.Active, failed, executor.ScaleExecutorOptions{})
	if result.LastActiveTime != nil {
		o.active = &seconds
	}
	out.Replicas = o.c.replicas
	return out, result.Error
}

// --- the requests ---

type request struct {
	Object   *kedav1alpha1.ScaledObject `json:"object"`
	Seconds  int64                      `json:"seconds"`
	Replicas int32                      `json:"replicas"`
	Samples  []*string                  `json:"samples"`
}

func answer(line []byte, o **object, address string) (interface{}, error) {
	var rq request
	if err := json.Unmarshal(line, &rq); err != nil {
		return nil, err
	}
	if rq.Object != nil {
		next, err := newObject(rq.Object, address)
		if err != nil {
			return nil, err
		}
		*o = next
		return map[string]interface{}{"hpa": next.hpa()}, nil
	}
	if *o == nil || len(rq.Samples) != len((*o).scalers) {
		return nil, fmt.Errorf("a step needs an object and a sample for each trigger")
	}
	samples = rq.Samples
	return (*o).step(rq.Seconds, rq.Replicas)
}

var version = "of an unknown version"

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go func() { _ = http.Serve(listener, http.HandlerFunc(servePrometheus)) }()
	address := "http://" + listener.Addr().String()
	in, out := bufio.NewReader(os.Stdin), json.NewEncoder(os.Stdout)
	var o *object
	fmt.Println("KEDA", version)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		value, err := answer(line, &o, address)
		if err != nil {
			value = map[string]string{"problem": err.Error()}
		}
		if out.Encode(value) != nil {
			return
		}
	}
}
