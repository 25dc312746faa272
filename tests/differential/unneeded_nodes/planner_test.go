// SPDX-License-Identifier: Apache-2.0
// Writes the unneeded nodes of each cluster of the file CLUSTERS to the file RESULTS. run.sh copies it into the Cluster Autoscaler.
package planner

import (
	"encoding/json"
	"os"
	"sort"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apiv1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider"
	testprovider "sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider/test"
	"sigs.k8s.io/cluster-autoscaler/pkg/config"
	. "sigs.k8s.io/cluster-autoscaler/pkg/core/test"
	processorstest "sigs.k8s.io/cluster-autoscaler/pkg/processors/test"
	"sigs.k8s.io/cluster-autoscaler/pkg/resourcequotas"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/clustersnapshot"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/drainability/rules"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/options"
	kube_util "sigs.k8s.io/cluster-autoscaler/pkg/utils/kubernetes"
)

type cluster struct {
	Nodes       []*apiv1.Node        `json:"nodes"`
	Pods        []*apiv1.Pod         `json:"pods"`
	ReplicaSets []*appsv1.ReplicaSet `json:"replicaSets"`
}
type result struct {
	Unneeded []string `json:"unneeded"`
}

func TestUnneededNodes(t *testing.T) {
	data, err := os.ReadFile(os.Getenv("CLUSTERS"))
	if err != nil {
		t.Fatal(err)
	}
	var all []cluster
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	var out []result
	for _, c := range all {
		rsLister, _ := kube_util.NewTestReplicaSetLister(c.ReplicaSets)
		registry := kube_util.NewListerRegistry(nil, nil, nil, nil, nil, nil, nil, rsLister, nil)
		provider := testprovider.NewTestCloudProviderBuilder().WithNodeGpuConfig(func(n *apiv1.Node) *cloudprovider.GpuConfig {
			q, ok := n.Status.Allocatable["nvidia.com/gpu"]
			if !ok || q.IsZero() {
				return nil
			}
			return &cloudprovider.GpuConfig{Label: "gpu", Type: "x", ExtendedResourceName: "nvidia.com/gpu"}
		}).Build()
		provider.AddNodeGroup("g", 0, 100, len(c.Nodes))
		for _, n := range c.Nodes {
			provider.AddNode("g", n)
		}
		opts := config.AutoscalingOptions{
			NodeGroupDefaults: config.NodeGroupAutoscalingOptions{
				ScaleDownUnneededTime:            10 * time.Minute,
				ScaleDownUnreadyTime:             20 * time.Minute,
				ScaleDownUtilizationThreshold:    0.5,
				ScaleDownGpuUtilizationThreshold: 0.5,
				IgnoreDaemonSetsUtilization:      false,
			},
			ScaleDownSimulationTimeout: time.Hour,
			MaxScaleDownParallelism:    1000,
			SkipNodesWithSystemPods:    true,
			SkipNodesWithLocalStorage:  true,
			BspDisruptionTimeout:       time.Hour,
			ScaleDownUnreadyEnabled:    true,
		}
		processors, templates := processorstest.NewTestProcessors(opts)
		ctx, err := NewScaleTestAutoscalingContext(opts, &fake.Clientset{}, registry, provider, nil, nil, templates)
		if err != nil {
			t.Fatal(err)
		}
		clustersnapshot.InitializeClusterSnapshotOrDie(t, ctx.ClusterSnapshot, c.Nodes, c.Pods)
		del := options.NewNodeDeleteOptions(opts)
		factory := resourcequotas.NewTrackerFactory(resourcequotas.TrackerOptions{CustomResourcesProcessor: processors.CustomResourcesProcessor, QuotaProvider: resourcequotas.NewCloudMinProvider(provider)})
		p := New(&ctx, processors, del, rules.Default(del), factory)
		p.minUpdateInterval = time.Second // otherwise the number of unneeded nodes is limited
		// The Cluster Autoscaler has no order among nodes that have just become unneeded: that of gpuscale.
		count := map[string]int{}
		for _, q := range c.Pods {
			count[q.Spec.NodeName]++
		}
		candidates := append([]*apiv1.Node{}, c.Nodes...)
		sort.SliceStable(candidates, func(i, j int) bool { return count[candidates[i].Name] < count[candidates[j].Name] })
		now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		p.latestUpdate = now.Add(-10 * time.Second)
		if err := p.UpdateClusterState(c.Nodes, candidates, &fakeActuationStatus{}, now); err != nil {
			t.Fatal(err)
		}
		r := result{Unneeded: []string{}}
		for _, n := range c.Nodes {
			if p.unneededNodes.Contains(n.Name) {
				r.Unneeded = append(r.Unneeded, n.Name)
			}
		}
		out = append(out, r)
	}
	text, _ := json.Marshal(out)
	os.WriteFile(os.Getenv("RESULTS"), text, 0o644)
}
