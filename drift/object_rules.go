package drift

import (
	"encoding/base64"
	"maps"
	"strings"
)

// rules are what only some kinds have.
type rules uint8

const (
	// secretData: stringData is a way to write data, whose values are hidden.
	secretData rules = 1 << iota
	// byteData: a value that is no base64 is a mistake.
	byteData
	// aggregated: a controller fills the rules of a role.
	aggregated
	// tokens: a controller adds secrets whose names begin with that of the object.
	tokens
	// definition: the versions, though owned as a whole, have names.
	definition
	// templated: without labels, a server gives it those of its template.
	templated
	// unsorted: no list says anything by its order.
	unsorted
	// tokenVolume: admission adds a volume with a token, and mounts it.
	tokenVolume
)

func (r rules) has(x rules) bool { return r&x != 0 }

// rulesOf returns the rules of a kind.
func rulesOf(group, kind string, o map[string]any) rules {
	switch kind + "." + group {
	case "Secret.":
		return secretData | byteData
	case "ConfigMap.":
		return byteData
	case "ServiceAccount.":
		return tokens
	case "ClusterRole.rbac.authorization.k8s.io":
		if o["aggregationRule"] != nil {
			return aggregated
		}
	case "CustomResourceDefinition.apiextensions.k8s.io":
		return definition
	case "Job.batch", "ReplicationController.":
		return templated
	case "Endpoints.", "EndpointSlice.discovery.k8s.io":
		return unsorted
	case "Pod.":
		return tokenVolume
	}
	return 0
}

// keyByKey returns the fields that are looked at key by key or item by item even
// where the hub's object does not have them.
func (r rules) keyByKey() []string {
	switch {
	case r.has(secretData):
		return []string{"data"}
	case r.has(tokens):
		return []string{"imagePullSecrets", "secrets"}
	}
	return nil
}

// cleaned returns a copy of the hub's object without what belongs to servers.
func (m *Manifest) cleaned(o map[string]any) map[string]any {
	c, _ := copied(o).(map[string]any)
	if !m.status {
		delete(c, "status")
	}
	if m.rules.has(aggregated) {
		delete(c, "rules")
	}
	if meta, ok := c["metadata"].(map[string]any); ok {
		cleanMetadata(meta)
	}
	if m.rules.has(secretData) {
		text, _ := c["stringData"].(map[string]any)
		m.folded = make(map[string]bool, len(text))
		for key := range text {
			m.folded[key] = true
		}
		foldStringData(c)
	}
	return c
}

// hubPointer returns where a path leads in the hub's object as it was given: what
// its stringData says is compared as data.
func (m *Manifest) hubPointer(path []step) string {
	if len(m.folded) == 0 || len(path) == 0 || path[0].name != "data" {
		return pointerTo(path, hubSide)
	}
	data, _ := m.hub["data"].(map[string]any)
	if len(path) == 1 && len(data) > len(m.folded) || len(path) > 1 && !m.folded[path[1].name] {
		return pointerTo(path, hubSide)
	}
	return pointerTo(append([]step{{name: "stringData"}}, path[1:]...), hubSide)
}

func cleanMetadata(meta map[string]any) {
	maps.DeleteFunc(meta, func(name string, _ any) bool {
		return name != "name" && name != "namespace" && !comparedMetadata(name)
	})
	for _, name := range [...]string{"labels", "annotations"} {
		if m, ok := meta[name].(map[string]any); ok {
			maps.DeleteFunc(m, func(key string, _ any) bool { return systemKey(key) })
		}
	}
}

func comparedMetadata(name string) bool {
	return name == "labels" || name == "annotations" || name == "finalizers"
}

// systemKey tells whether a label or annotation of an object is written by a
// server, a controller of Kubernetes, a client or this module. The list names
// each one: keys of the same domains that people set are compared.
func systemKey(key string) bool {
	switch key {
	case "kubectl.kubernetes.io/last-applied-configuration",
		"deployment.kubernetes.io/revision",
		"deployment.kubernetes.io/revision-history",
		"deprecated.daemonset.template.generation",
		"kubernetes.io/metadata.name",
		"endpoints.kubernetes.io/last-change-trigger-time",
		"batch.kubernetes.io/controller-uid", "controller-uid",
		"batch.kubernetes.io/job-name", "job-name",
		"batch.kubernetes.io/job-tracking",
		"batch.kubernetes.io/cronjob-scheduled-timestamp",
		"control-plane.alpha.kubernetes.io/leader",
		"pv.kubernetes.io/bind-completed",
		"pv.kubernetes.io/bound-by-controller",
		"pv.kubernetes.io/migrated-to",
		"pv.kubernetes.io/provisioned-by",
		"volume.beta.kubernetes.io/storage-provisioner",
		"volume.kubernetes.io/storage-provisioner",
		"volume.kubernetes.io/selected-node",
		"volume.kubernetes.io/storage-resizer",
		"volume.kubernetes.io/migrated-to",
		"volume.kubernetes.io/provisioner-deletion-secret-name",
		"volume.kubernetes.io/provisioner-deletion-secret-namespace",
		"slipway.dev/applied":
		return true
	}
	return strings.HasPrefix(key, "epoch.slipway.dev/") || strings.HasPrefix(key, "digest.slipway.dev/")
}

// systemFinalizer tells whether a server adds a finalizer to objects by itself.
func systemFinalizer(name string) bool {
	switch name {
	case "kubernetes.io/pv-protection", "kubernetes.io/pvc-protection",
		"foregroundDeletion", "orphan", "service.kubernetes.io/load-balancer-cleanup",
		"external-provisioner.volume.kubernetes.io/finalizer",
		"customresourcecleanup.apiextensions.k8s.io", "batch.kubernetes.io/job-tracking":
		return true
	}
	return false
}

// foldStringData moves the stringData of a Secret into its data, as a server does.
func foldStringData(o map[string]any) {
	text, ok := o["stringData"].(map[string]any)
	if !ok {
		if o["stringData"] == nil {
			delete(o, "stringData")
		}
		return
	}
	data, ok := o["data"].(map[string]any)
	if !ok && o["data"] != nil {
		return
	}
	if data == nil {
		data = map[string]any{}
	}
	for key, v := range text {
		if s, ok := v.(string); ok {
			data[key] = base64.StdEncoding.EncodeToString([]byte(s))
			delete(text, key)
		}
	}
	maps.DeleteFunc(text, func(_ string, v any) bool { return v == nil })
	o["data"] = data
	if len(text) == 0 {
		delete(o, "stringData")
	}
}
