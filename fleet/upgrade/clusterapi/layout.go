package clusterapi

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

// Groups of Cluster API, and the supported versions.
const (
	coreGroup    = "cluster.x-k8s.io"
	controlGroup = "controlplane.cluster.x-k8s.io"
	v1beta1      = "v1beta1"
	v1beta2      = "v1beta2"
)

// Kinds that are read.
const (
	clusterKind    = "Cluster"
	controlKind    = "KubeadmControlPlane"
	deploymentKind = "MachineDeployment"
	machineKind    = "Machine"
)

// layout knows the places of fields in a version of Cluster API.
type layout struct{ version string }

func (l layout) old() bool { return l.version == v1beta1 }

func (l layout) id(group, kind, namespace, name string) snapshot.ID {
	return snapshot.ID{Group: group, Version: l.version, Kind: kind, Namespace: namespace, Name: name}
}

// template returns the path of the reference to the machine template, in an object of the given
// kind.
func (l layout) template(kind string) []string {
	switch {
	case kind == deploymentKind:
		return []string{"spec", "template", "spec", "infrastructureRef"}
	case l.old():
		return []string{"spec", "machineTemplate", "infrastructureRef"}
	}
	return []string{"spec", "machineTemplate", "spec", "infrastructureRef"}
}

// versionOf returns the path of the desired Kubernetes version, in an object of the given kind.
func versionOf(kind string) []string {
	if kind == deploymentKind {
		return []string{"spec", "template", "spec", "version"}
	}
	return []string{"spec", "version"}
}

// reference returns the ID that a reference in an object of namespace names. References of v1beta2
// have no version; then the ID has the version given.
func (l layout) reference(r tree, namespace, given string) (snapshot.ID, error) {
	id := snapshot.ID{Group: text(r, "apiGroup"), Version: given, Kind: text(r, "kind"), Namespace: namespace, Name: text(r, "name")}
	if l.old() {
		gv, err := schema.ParseGroupVersion(text(r, "apiVersion"))
		if err != nil {
			return snapshot.ID{}, fmt.Errorf("a reference has apiVersion %q, which is none: %w", quoted(r, "apiVersion"), backend.ErrPermanent)
		}
		id.Group, id.Version = gv.Group, gv.Version
		if ns := text(r, "namespace"); ns != "" && ns != namespace {
			return snapshot.ID{}, fmt.Errorf("a reference names namespace %q, it must be the namespace of the cluster, %q: %w", quoted(r, "namespace"), namespace, backend.ErrPermanent)
		}
	}
	if id.Group == "" || id.Kind == "" || id.Name == "" {
		return snapshot.ID{}, fmt.Errorf("a reference is without group, kind or name: %w", backend.ErrPermanent)
	}
	return id, nil
}

// tally counts the replicas of a control plane or a MachineDeployment.
type tally struct{ wanted, all, upToDate, ready, available int64 }

func (l layout) tally(obj tree) tally {
	t := tally{wanted: 1, all: count(obj, "status", "replicas"), ready: count(obj, "status", "readyReplicas")}
	if n, ok := number(obj, "spec", "replicas"); ok {
		t.wanted = n
	}
	if l.old() {
		t.upToDate = count(obj, "status", "updatedReplicas")
		t.available = t.all - count(obj, "status", "unavailableReplicas")
		return t
	}
	t.upToDate, t.available = count(obj, "status", "upToDateReplicas"), count(obj, "status", "availableReplicas")
	return t
}

// maxConditions bounds the conditions that are read.
const maxConditions = 64

// condition returns a condition of an object, or nil if there is none. In v1beta1, conditions with
// an observed generation are in a separate place.
func (l layout) condition(obj tree, kind string) tree {
	places := [][]string{{"status", "conditions"}}
	if l.old() {
		places = [][]string{{"status", "v1beta2", "conditions"}, {"status", "conditions"}}
	}
	for _, place := range places {
		for _, c := range branches(obj, maxConditions, place...) {
			if text(c, "type") == kind {
				return c
			}
		}
	}
	return nil
}

// fresh reports whether a condition describes the current generation of the object. A condition
// without an observed generation counts as fresh.
func fresh(c, obj tree) bool {
	observed, ok := number(c, "observedGeneration")
	return !ok || observed == 0 || observed >= count(obj, "metadata", "generation")
}

// failure returns why Cluster API abandoned a machine, or "" if it did not.
func (l layout) failure(obj tree) string {
	at := []string{"status"}
	if !l.old() {
		at = []string{"status", "deprecated", "v1beta1"}
	}
	t := branch(obj, at...)
	switch {
	case quoted(t, "failureMessage") != "":
		return quoted(t, "failureMessage")
	case quoted(t, "failureReason") != "":
		return quoted(t, "failureReason")
	case text(obj, "status", "phase") == "Failed":
		return "its phase is Failed"
	}
	return ""
}
