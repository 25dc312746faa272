// A node for end-to-end tests: a real kubelet (its volumes, tokens, probes, device manager and
// PodResources socket) whose container runtime runs the containers of gpuscale's image as processes
// in network and mount namespaces of their own, containers with a GPU as a load on a simulated one,
// and no others.
//
// Modes: kubelet (a node), proxy (services' addresses and names), container (a process of one).
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	fakecri "k8s.io/cri-api/pkg/apis/testing"
	kubeletapp "k8s.io/kubernetes/cmd/kubelet/app"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubemark"
	"k8s.io/kubernetes/pkg/util/taints"
	"k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/configmap"
	"k8s.io/kubernetes/pkg/volume/downwardapi"
	"k8s.io/kubernetes/pkg/volume/emptydir"
	"k8s.io/kubernetes/pkg/volume/hostpath"
	"k8s.io/kubernetes/pkg/volume/projected"
	"k8s.io/kubernetes/pkg/volume/secret"
	"k8s.io/kubernetes/pkg/volume/util/hostutil"
)

type options struct {
	name, address, kubeconfig string
	podNetwork                string // three bytes, such as 10.244.1
	cert, key, clientCA       string
	gpus                      string
	providerID                string
	labels, taints            string // as the kubelet's flags
	cpus                      int
	runtime                   runtimeOptions
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "node:", err)
	os.Exit(1)
}

func client(kubeconfig string, qps float32) *clientset.Clientset {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		fatal(err)
	}
	config.QPS, config.Burst = qps, int(qps)*2
	c, err := clientset.NewForConfig(config)
	if err != nil {
		fatal(err)
	}
	return c
}

func volumePlugins() []volume.VolumePlugin {
	var all []volume.VolumePlugin
	all = append(all, emptydir.ProbeVolumePlugins()...)
	all = append(all, hostpath.ProbeVolumePlugins(volume.VolumeConfig{})...)
	all = append(all, secret.ProbeVolumePlugins()...)
	all = append(all, configmap.ProbeVolumePlugins()...)
	all = append(all, downwardapi.ProbeVolumePlugins()...)
	return append(all, projected.ProbeVolumePlugins()...)
}

func runKubelet(o *options) error {
	ctx := context.Background()
	// The fake runtime does not report paths of logs. The kubelet removes PATH* when it removes a container: here all files of
	// the current directory.
	if err := os.MkdirAll("/var/lib/empty", 0o755); err != nil {
		return err
	}
	if err := os.Chdir("/var/lib/empty"); err != nil {
		return err
	}
	devices, err := newDeviceManager(o.gpus)
	if err != nil {
		return err
	}
	nodeLabels := map[string]string{}
	if o.gpus != "" {
		nodeLabels = map[string]string{"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "SIMULATED"}
	}
	for _, label := range strings.FieldsFunc(o.labels, func(r rune) bool { return r == ',' }) {
		key, value, _ := strings.Cut(label, "=")
		nodeLabels[key] = value
	}
	flags, config := kubemark.GetHollowKubeletConfig(&kubemark.HollowKubeletOptions{
		NodeName: o.name, KubeletPort: 10250, MaxPods: 110, NodeLabels: nodeLabels,
	})
	if o.taints != "" {
		if config.RegisterWithTaints, _, err = taints.ParseTaints(strings.Split(o.taints, ",")); err != nil {
			return err
		}
	}
	config.ProviderID = o.providerID
	os.RemoveAll(flags.RootDirectory) // made by the call, in /tmp
	flags.RootDirectory = "/var/lib/kubelet"
	flags.CertDirectory = "/var/lib/kubelet/pki"
	flags.NodeIP = o.address
	config.Address = o.address
	config.StaticPodPath = ""
	config.PodLogsDir = "/var/log/pods"
	config.TLSCertFile, config.TLSPrivateKeyFile = o.cert, o.key
	config.Authentication.Webhook.Enabled = true
	config.Authentication.X509.ClientCAFile = o.clientCA
	config.Authorization.Mode = kubeletconfig.KubeletAuthorizationModeWebhook
	config.VolumeStatsAggPeriod.Duration = time.Hour
	kube := client(o.kubeconfig, 50)
	machine := &machine{name: o.name, cpus: o.cpus}
	runtime := newRuntime(&o.runtime, o.podNetwork, o.address)
	hollow := kubemark.NewHollowKubelet(flags, config, kube, client(o.kubeconfig, 10), machine,
		fakecri.NewFakeImageService(), runtime, devices)
	deps := hollow.KubeletDeps
	deps.ProbeManager = nil // the kubelet's own: pods have addresses here
	deps.OSInterface = kubecontainer.RealOS{}
	deps.HostUtil = hostutil.NewHostUtil()
	deps.VolumePlugins = volumePlugins()
	if deps.TLSOptions, err = kubeletapp.InitializeTLS(ctx, flags, config); err != nil {
		return err
	}
	auth, reload, err := kubeletapp.BuildAuth(types.NodeName(o.name), kube, *config)
	if err != nil {
		return err
	}
	deps.Auth = auth
	go reload(ctx.Done())
	if o.gpus != "" {
		go devices.plug(ctx)
	}
	hollow.Run(ctx)
	return nil
}

func main() {
	if len(os.Args) > 2 && os.Args[1] == "container" {
		fatal(enterContainer(os.Args[2]))
	}
	var o options
	mode := flag.String("mode", "kubelet", "kubelet or proxy")
	flag.StringVar(&o.name, "name", "", "node")
	flag.StringVar(&o.address, "address", "", "the node's address")
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "of the node")
	flag.StringVar(&o.podNetwork, "pod-network", "10.244.1", "first three bytes of its pods' addresses")
	flag.StringVar(&o.cert, "tls-cert-file", "", "serving certificate")
	flag.StringVar(&o.key, "tls-private-key-file", "", "its key")
	flag.StringVar(&o.clientCA, "client-ca-file", "", "CA of clients")
	flag.StringVar(&o.gpus, "gpus", "", "UUIDs, separated by commas")
	flag.StringVar(&o.providerID, "provider-id", "", "spec.providerID")
	flag.StringVar(&o.labels, "node-labels", "", "further labels, separated by commas")
	flag.StringVar(&o.taints, "register-with-taints", "", "taints, separated by commas")
	flag.IntVar(&o.cpus, "cpus", 16, "cores of the machine")
	flag.StringVar(&o.runtime.image, "image", "", "folder that the containers have as /usr/local/bin")
	flag.StringVar(&o.runtime.hosts, "hosts", "", "file that they have as /etc/hosts")
	flag.StringVar(&o.runtime.logs, "logs", "", "folder of their logs")
	flag.StringVar(&o.runtime.sim, "sim", "", "name of the node's simulated GPUs")
	flag.StringVar(&o.runtime.load, "load", "", "folder of the loads, by the label app of pods")
	flag.Parse()
	var err error
	switch *mode {
	case "kubelet":
		err = runKubelet(&o)
	case "proxy":
		err = runProxy(&o)
	default:
		err = fmt.Errorf("no mode %s", strings.TrimSpace(*mode))
	}
	fatal(err)
}
