// Command drift compares one object with the live object of a cluster. It uses package drift
// only, without an engine and without a connection. It exits with 3 if something differs.
//
//	kubectl get deployment web -o yaml | go run ./examples/drift web.yaml
//
// Change the options to select the differences that count. The verb slipway drift compares whole
// files.
package main

import (
	"fmt"
	"io"
	"log"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/drift"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: drift FILE < OBJECT")
	}
	hub, err := os.Open(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	report, err := compare(hub, os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	for _, d := range report.Differences {
		fmt.Printf("%s: %s, hub %s, member %s\n", d.KeyPath, d.Class, d.Hub, d.Member)
	}
	if report.Drifted() {
		os.Exit(3)
	}
}

// compare reads the desired and the live object, and compares them.
func compare(hub, member io.Reader) (drift.Report, error) {
	var objects [2]unstructured.Unstructured
	for i, from := range []io.Reader{hub, member} {
		text, err := io.ReadAll(from)
		if err == nil {
			err = yaml.UnmarshalStrict(text, &objects[i].Object)
		}
		if err != nil {
			return drift.Report{}, err
		}
	}
	wanted, found := &objects[0], &objects[1]
	report, err := drift.Compare(wanted, found, drift.Options{
		Comparison: drift.Full,                   // fields that only the member has count, too
		Manager:    drift.Applier(wanted, found), // fields that it applied and the hub dropped are stale
		Ignore:     []drift.IgnoreRule{{Pointers: []string{"/spec/replicas"}}},
	})
	return report, err
}
