// Prints what Kubernetes' own code makes of autoscalers of the retired versions, a line each:
// {"object": as given, "errors": the fields that are not valid, and of valid ones "v2", "v1",
// "v2beta1", "v2beta2": how the versions show it once it was stored}.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/kubernetes/pkg/apis/autoscaling"
	"k8s.io/kubernetes/pkg/apis/autoscaling/install"
	"k8s.io/kubernetes/pkg/apis/autoscaling/validation"
)

var scheme = runtime.NewScheme()
var codecs serializer.CodecFactory

func init() {
	install.Install(scheme)
	codecs = serializer.NewCodecFactory(scheme)
}

type m = map[string]interface{}

var r *rand.Rand

func pick(v ...interface{}) interface{} { return v[r.Intn(len(v))] }

// Of most objects everything is valid.
var careful bool

// p: of good values, where it is an optional one.
func chance(p float64) bool {
	if careful && p >= .8 {
		return true
	}
	if careful && p <= .1 {
		return false
	}
	return r.Float64() < p
}

// The first n are valid.
func good(n int, v ...interface{}) interface{} {
	if careful {
		return v[r.Intn(n)]
	}
	return pick(v...)
}

func quantity() interface{} {
	return good(8, "20", "500m", "1k", "1e3", "0.5", "100Mi", "1500m", 20, "0", "-1")
}
func selector() interface{} {
	return pick(m{"matchLabels": m{"a": "b"}}, m{}, m{"matchExpressions": []interface{}{m{"key": "k", "operator": "In", "values": []interface{}{"v", "w"}}}})
}
func percent() interface{} { return good(4, 50, 80, 100, 250, 0, -1) }
func reference() m {
	return good(3, m{"apiVersion": "v1", "kind": "Service", "name": "web"}, m{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "main"},
		m{"kind": "Service", "name": "x"}, m{"kind": "", "name": ""}, m{"kind": "Service", "name": "a/b"}).(m)
}
func set(o m, p float64, key string, v interface{}) {
	if chance(p) {
		o[key] = v
	}
}

func containerMetric1() m {
	s := m{"name": pick("cpu", "memory"), "container": good(1, "app", "Not_A_Label")}
	if chance(.5) {
		s["targetAverageUtilization"] = percent()
	} else {
		s["targetAverageValue"] = quantity()
	}
	return m{"type": "ContainerResource", "containerResource": s}
}

// A metric in the form of v2beta1.
func metric1() m {
	// Its code forgets the container of a ContainerResource.
	kind := pick("Resource", "Pods", "Object", "External").(string)
	o, s := m{"type": kind}, m{}
	switch kind {
	case "Resource", "ContainerResource":
		set(s, .95, "name", pick("cpu", "memory", "nvidia.com/gpu"))
		if chance(.5) {
			s["targetAverageUtilization"] = percent()
		}
		if s["targetAverageUtilization"] == nil || chance(.1) {
			set(s, .9, "targetAverageValue", quantity())
		}
		if kind == "ContainerResource" {
			set(s, .9, "container", good(1, "app", "Not_A_Label"))
		}
	case "Pods":
		set(s, .95, "metricName", good(2, "qps", "gpu_util", "a/b"))
		set(s, .95, "targetAverageValue", quantity())
		set(s, .4, "selector", selector())
	case "Object":
		set(s, .95, "target", reference())
		set(s, .95, "metricName", good(1, "rps", "b%c"))
		s["targetValue"] = quantity()
		if chance(.4) { // beside it an absent or zero targetValue is invalid there and left out here
			s["averageValue"], s["targetValue"] = quantity(), "5"
		}
		set(s, .4, "selector", selector())
	case "External":
		set(s, .95, "metricName", good(1, "queue", "."))
		set(s, .4, "metricSelector", selector())
		if chance(.5) {
			s["targetValue"] = quantity()
		}
		if s["targetValue"] == nil || chance(.1) {
			set(s, .9, "targetAverageValue", quantity())
		}
	}
	field := map[string]string{"Resource": "resource", "Pods": "pods", "Object": "object", "External": "external", "ContainerResource": "containerResource"}[kind]
	set(o, .97, field, s)
	if chance(.03) {
		o["type"] = pick("", "Nonsense")
	}
	if chance(.03) {
		o["pods"] = m{"metricName": "also", "targetAverageValue": "1"}
	}
	return o
}

func target() m {
	o := m{}
	set(o, .9, "type", pick("Utilization", "Value", "AverageValue", "Nonsense"))
	set(o, .45, "averageUtilization", percent())
	set(o, .45, "averageValue", quantity())
	set(o, .45, "value", quantity())
	return o
}

// In the form of v2beta2.
func metric2() m {
	kind := pick("Resource", "Pods", "Object", "External", "ContainerResource").(string)
	o, s := m{"type": kind}, m{}
	if careful {
		return careful2(kind)
	}
	name := m{}
	set(name, .95, "name", good(2, "qps", "gpu_util", "a/b"))
	set(name, .4, "selector", selector())
	set(s, .95, "target", target())
	switch kind {
	case "Resource", "ContainerResource":
		set(s, .95, "name", pick("cpu", "memory"))
		if kind == "ContainerResource" {
			set(s, .9, "container", "app")
		}
	case "Object":
		set(s, .95, "describedObject", reference())
		set(s, .95, "metric", name)
	default:
		set(s, .95, "metric", name)
	}
	field := map[string]string{"Resource": "resource", "Pods": "pods", "Object": "object", "External": "external", "ContainerResource": "containerResource"}[kind]
	set(o, .97, field, s)
	return o
}

func careful2(kind string) m {
	name, t := m{"name": pick("qps", "gpu_util")}, m{}
	set(name, .4, "selector", selector())
	switch pick("Utilization", "AverageValue", "Value") {
	case "Utilization":
		t = m{"type": "Utilization", "averageUtilization": percent()}
	case "AverageValue":
		t = m{"type": "AverageValue", "averageValue": quantity()}
	default:
		t = m{"type": "Value", "value": quantity()}
	}
	switch kind {
	case "Resource":
		return m{"type": kind, "resource": m{"name": pick("cpu", "memory"), "target": t}}
	case "ContainerResource":
		return m{"type": kind, "containerResource": m{"name": pick("cpu", "memory"), "container": "app", "target": t}}
	case "Pods":
		return m{"type": kind, "pods": m{"metric": name, "target": t}}
	case "External":
		return m{"type": kind, "external": m{"metric": name, "target": t}}
	}
	return m{"type": kind, "object": m{"describedObject": reference(), "metric": name, "target": t}}
}

func rules() m {
	o := m{}
	set(o, .6, "stabilizationWindowSeconds", good(3, 0, 60, 3600, 3601, -1))
	set(o, .5, "selectPolicy", good(3, "Max", "Min", "Disabled", "Nonsense"))
	if chance(.6) {
		list := []interface{}{}
		for n := r.Intn(3); n > 0; n-- {
			list = append(list, m{"type": good(2, "Pods", "Percent", "Nonsense"), "value": good(2, 4, 100, 0), "periodSeconds": good(2, 15, 60, 1801, 0)})
		}
		o["policies"] = list
	}
	return o
}

func status1() m {
	o := m{"currentReplicas": r.Intn(5), "desiredReplicas": r.Intn(5)}
	list := []interface{}{}
	for n := r.Intn(3); n > 0; n-- {
		list = append(list, pick(
			m{"type": "Resource", "resource": m{"name": "cpu", "currentAverageUtilization": 40, "currentAverageValue": "400m"}},
			m{"type": "Resource", "resource": m{"name": "memory", "currentAverageValue": "100Mi"}},
			m{"type": "Pods", "pods": m{"metricName": "qps", "currentAverageValue": "12"}},
			m{"type": "Object", "object": m{"target": reference(), "metricName": "rps", "currentValue": "30", "averageValue": "7"}},
			m{"type": "External", "external": m{"metricName": "queue", "currentValue": "0", "currentAverageValue": "4500m"}}, m{"type": ""}))
	}
	o["currentMetrics"] = list
	set(o, .5, "conditions", []interface{}{m{"type": "AbleToScale", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z", "reason": "R", "message": "M \"q\""}})
	set(o, .3, "observedGeneration", 3)
	return o
}

func status2() m {
	o := m{"currentReplicas": r.Intn(5), "desiredReplicas": r.Intn(5)}
	list := []interface{}{}
	for n := r.Intn(3); n > 0; n-- {
		list = append(list, pick(
			m{"type": "Resource", "resource": m{"name": "cpu", "current": m{"averageUtilization": 40, "averageValue": "400m"}}},
			m{"type": "ContainerResource", "containerResource": m{"name": "cpu", "container": "app", "current": m{"averageUtilization": 40, "averageValue": "400m"}}},
			m{"type": "Pods", "pods": m{"metric": m{"name": "qps"}, "current": m{"averageValue": "12"}}},
			m{"type": "Object", "object": m{"describedObject": reference(), "metric": m{"name": "rps", "selector": selector()}, "current": m{"value": "30"}}},
			m{"type": "External", "external": m{"metric": m{"name": "queue"}, "current": m{"averageValue": "4500m"}}}))
	}
	o["currentMetrics"] = list
	set(o, .5, "conditions", []interface{}{m{"type": "AbleToScale", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z", "reason": "R", "message": "M"}})
	return o
}

func object(version string) m {
	careful = r.Float64() < .7
	spec := m{"scaleTargetRef": good(2, m{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, m{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
		m{"apiVersion": "apps/v1", "kind": "", "name": "a%b"})}
	set(spec, .9, "maxReplicas", good(3, 10, 10, 10, 0, -1, 1))
	set(spec, .7, "minReplicas", good(2, 1, 2, 11, -2))
	if chance(.9) {
		list := []interface{}{}
		for n := r.Intn(4); n > 0; n-- {
			if version == "v2beta1" {
				list = append(list, metric1())
			} else {
				list = append(list, metric2())
			}
		}
		spec["metrics"] = list
	}
	meta := m{"name": "web", "namespace": "shop"}
	if version == "v2beta1" {
		if chance(.3) {
			meta["annotations"] = m{"autoscaling.alpha.kubernetes.io/behavior": pick(
				`{"ScaleUp":{"StabilizationWindowSeconds":10,"SelectPolicy":"Min","Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":60}]}}`,
				`{"ScaleDown":{"Policies":[]},"ScaleUp":null}`, `{}`, `nonsense`, `{"ScaleUp":{"SelectPolicy":"Nonsense"}}`)}
		}
	} else if chance(.4) {
		b := m{}
		set(b, .7, "scaleUp", rules())
		set(b, .7, "scaleDown", rules())
		spec["behavior"] = b
	}
	o := m{"apiVersion": "autoscaling/" + version, "kind": "HorizontalPodAutoscaler", "metadata": meta, "spec": spec}
	if chance(.4) {
		if version == "v2beta1" {
			o["status"] = status1()
		} else {
			o["status"] = status2()
		}
	}
	return o
}

func text(v interface{}) string {
	out, _ := json.Marshal(v)
	return string(out)
}

// The rest of a newer version is in annotations.
func object1() m {
	o := object("v2beta1")
	spec, annotations := o["spec"].(m), m{}
	if list, ok := spec["metrics"]; ok {
		metrics := list.([]interface{})
		if chance(.3) {
			metrics = append(metrics, containerMetric1())
		}
		annotations["autoscaling.alpha.kubernetes.io/metrics"] = good(8, text(metrics), text(metrics), text(metrics), text(metrics), text(metrics), "null", "[]", "nonsense", `{"a":1}`)
	}
	delete(spec, "metrics")
	set(spec, .5, "targetCPUUtilizationPercentage", percent())
	if old, ok := o["metadata"].(m)["annotations"]; ok {
		for k, v := range old.(m) {
			annotations[k] = v
		}
	}
	if s, ok := o["status"].(m); ok {
		annotations["autoscaling.alpha.kubernetes.io/current-metrics"] = text(s["currentMetrics"])
		if c, ok := s["conditions"]; ok {
			annotations["autoscaling.alpha.kubernetes.io/conditions"] = text(c)
		}
		delete(s, "currentMetrics")
		delete(s, "conditions")
		set(s, .5, "currentCPUUtilizationPercentage", 40)
	}
	set(annotations, .3, "else", "stays")
	if len(annotations) > 0 {
		o["metadata"].(m)["annotations"] = annotations
	}
	o["apiVersion"] = "autoscaling/v1"
	return o
}

func encode(in runtime.Object, version string) (json.RawMessage, error) {
	gv := schema.GroupVersion{Group: "autoscaling", Version: version}
	info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	return runtime.Encode(codecs.EncoderForVersion(info.Serializer, gv), in)
}

func read(text []byte) (*autoscaling.HorizontalPodAutoscaler, error) {
	o, err := runtime.Decode(codecs.UniversalDecoder(), text) // decoded, defaulted, converted
	if err != nil {
		return nil, err
	}
	return o.(*autoscaling.HorizontalPodAutoscaler), nil
}

func line(version string) (m, error) {
	var o m
	if version == "v1" {
		o = object1()
	} else {
		o = object(version)
	}
	text := text(o)
	internal, err := read([]byte(text))
	if err != nil {
		return m{"object": o, "unreadable": err.Error()}, nil
	}
	out := m{"object": o}
	// The words are those of the release; the fields stay.
	fields, seen := []string{}, map[string]bool{}
	for _, e := range validation.ValidateHorizontalPodAutoscaler(internal) {
		if !seen[e.Field] {
			fields = append(fields, e.Field)
		}
		seen[e.Field] = true
	}
	sort.Strings(fields)
	out["errors"] = fields
	if len(fields) > 0 {
		return out, nil
	}
	stored, err := encode(internal, "v2")
	if err == nil {
		internal, err = read(stored)
	}
	if err != nil {
		return nil, err
	}
	for _, v := range []string{"v2", "v1", "v2beta1", "v2beta2"} {
		if v == "v2beta1" && strings.Contains(text, "ContainerResource") {
			continue
		}
		form, err := encode(internal.DeepCopy(), v)
		if err != nil {
			return nil, fmt.Errorf("%s: %v of %s", v, err, text)
		}
		out[v] = form
	}
	return out, nil
}

func main() {
	n, seed := flag.Int("objects", 100, ""), flag.Int64("seed", 1, "")
	flag.Parse()
	utilruntime.ErrorHandlers = nil
	r = rand.New(rand.NewSource(*seed))
	w := bufio.NewWriter(os.Stdout)
	defer w.Flush()
	for i := 0; i < *n; i++ {
		l, err := line([]string{"v2beta1", "v2beta2", "v1"}[i%3])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		text, _ := json.Marshal(l)
		w.Write(text)
		w.WriteByte('\n')
	}
}
