// Knative's pod autoscaler (knative.dev/serving) in virtual time. Reads one JSON object a line and
// answers with the number of pods. The windows are those of its metric collector; scale-down-delay is
// five minutes, as the window of a HorizontalPodAutoscaler.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/serving/pkg/autoscaler/aggregation"
	"knative.dev/serving/pkg/autoscaler/scaling"
)

type windows struct {
	stable, panic *aggregation.TimedFloat64Buckets
}

func (w *windows) StableAndPanicConcurrency(_ types.NamespacedName, now time.Time) (float64, float64, error) {
	return w.stable.WindowAverage(now), w.panic.WindowAverage(now), nil
}
func (w *windows) StableAndPanicRPS(_ types.NamespacedName, now time.Time) (float64, float64, error) {
	return 0, 0, nil
}

type pods struct{ ready int }

func (p *pods) ReadyCount() (int, error)    { return p.ready, nil }
func (p *pods) NotReadyCount() (int, error) { return 0, nil }

type input struct {
	New      bool
	T        float64 // seconds
	Ready    int
	Requests float64 // in the engines and in front of them
	Target   float64 // requests of one pod
}

func main() {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "knative.dev/serving" {
				version = m.Version
			}
		}
	}
	fmt.Println("Knative KPA of knative.dev/serving", version)
	out := bufio.NewWriter(os.Stdout)
	out.Flush()
	logger := zap.NewNop().Sugar()
	var w *windows
	var p *pods
	var s scaling.UniScaler
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var v input
		if err := json.Unmarshal(in.Bytes(), &v); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		now := time.Unix(1700000000, 0).Add(time.Duration(v.T * 1e9))
		if v.New {
			w = &windows{aggregation.NewTimedFloat64Buckets(60*time.Second, time.Second),
				aggregation.NewTimedFloat64Buckets(6*time.Second, time.Second)}
			// The autoscaler of a service that has run for long is not in panic mode.
			p = &pods{1}
			s = scaling.New(context.Background(), "ml", "llm", w, p, &scaling.DeciderSpec{
				MaxScaleUpRate: 1000, MaxScaleDownRate: 2, ScalingMetric: "concurrency",
				TargetValue: v.Target * 0.7, TotalValue: v.Target, TargetBurstCapacity: 211,
				ActivatorCapacity: 100, PanicThreshold: 2, StableWindow: 60 * time.Second,
				ScaleDownDelay: 300 * time.Second, Reachable: true})
		}
		p.ready = v.Ready
		w.stable.Record(now, v.Requests)
		w.panic.Record(now, v.Requests)
		r := s.Scale(logger, now)
		if !r.ScaleValid {
			r.DesiredPodCount = 0
		}
		fmt.Fprintln(out, r.DesiredPodCount)
		out.Flush()
	}
}
