// SPDX-License-Identifier: Apache-2.0

// Made node.pb and pod.pb from the JSON files, and reads such messages, with Kubernetes' own types:
//
//	mkdir /tmp/objects && cp objects.go /tmp/objects && cd /tmp/objects
//	go mod init objects && go get k8s.io/api@v0.36.3
//	go run . encode Pod <pod.json >pod.pb
//	go run . decode Pod <pod.pb
package main

import (
	"encoding/json"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
)

type object interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

func main() {
	kinds := map[string]object{"Node": &corev1.Node{}, "Pod": &corev1.Pod{}}
	o := kinds[os.Args[2]]
	in, err := io.ReadAll(os.Stdin)
	var out []byte
	if err == nil && os.Args[1] == "encode" {
		if err = json.Unmarshal(in, o); err == nil {
			out, err = o.Marshal()
		}
	} else if err == nil {
		if err = o.Unmarshal(in); err == nil {
			out, err = json.Marshal(o)
		}
	}
	if err != nil {
		panic(err)
	}
	os.Stdout.Write(out)
}
