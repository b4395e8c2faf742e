// Package kinds knows the special rules of some built-in kinds, and the labels, annotations,
// finalizers and items that servers and controllers write themselves.
package kinds

import (
	"encoding/base64"
	"maps"
	"strings"
)

// Rules are special rules of some kinds.
type Rules uint8

// The rules.
const (
	// SecretData: stringData is a way to write data, whose values are secret.
	SecretData Rules = 1 << iota
	// ByteData: a value that is not base64 is an error.
	ByteData
	// Aggregated: a controller fills the rules of a role.
	Aggregated
	// Tokens: a controller adds secrets whose names begin with the name of the object.
	Tokens
	// Definition: the versions, though owned as a whole, are identified by names.
	Definition
	// Templated: without labels, a server gives it the labels of its template.
	Templated
	// TokenVolume: admission adds a volume with a token, and mounts it.
	TokenVolume
)

// Has reports whether r includes a rule.
func (r Rules) Has(x Rules) bool { return r&x != 0 }

// RulesOf returns the rules of a kind.
func RulesOf(group, kind string, o map[string]any) Rules {
	switch kind + "." + group {
	case "Secret.":
		return SecretData | ByteData
	case "ConfigMap.":
		return ByteData
	case "ServiceAccount.":
		return Tokens
	case "ClusterRole.rbac.authorization.k8s.io":
		if o["aggregationRule"] != nil {
			return Aggregated
		}
	case "CustomResourceDefinition.apiextensions.k8s.io":
		return Definition
	case "Job.batch", "ReplicationController.":
		return Templated
	case "Pod.":
		return TokenVolume
	}
	return 0
}

// KeyByKey returns the fields that are compared key by key or item by item even if the hub's
// object does not have them.
func (r Rules) KeyByKey() []string {
	switch {
	case r.Has(SecretData):
		return []string{"data"}
	case r.Has(Tokens):
		return []string{"imagePullSecrets", "secrets"}
	}
	return nil
}

// CleanMetadata removes the fields that servers write from the metadata of an object.
func CleanMetadata(meta map[string]any) {
	maps.DeleteFunc(meta, func(name string, _ any) bool {
		return name != "name" && name != "namespace" && !IsComparedMetadata(name)
	})
	for _, name := range [...]string{"labels", "annotations"} {
		if m, ok := meta[name].(map[string]any); ok {
			maps.DeleteFunc(m, func(key string, _ any) bool { return IsSystemKey(key) })
		}
	}
}

// IsComparedMetadata reports whether a field of the metadata is compared.
func IsComparedMetadata(name string) bool {
	return name == "labels" || name == "annotations" || name == "finalizers"
}

// IsSystemKey reports whether a server, a controller of Kubernetes, a client or this module
// writes a label or annotation. The list names each key, because users' keys in the same domains
// are compared.
func IsSystemKey(key string) bool {
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

// IsSystemFinalizer reports whether a server adds a finalizer to objects itself.
func IsSystemFinalizer(name string) bool {
	switch name {
	case "kubernetes.io/pv-protection", "kubernetes.io/pvc-protection",
		"foregroundDeletion", "orphan", "service.kubernetes.io/load-balancer-cleanup",
		"external-provisioner.volume.kubernetes.io/finalizer",
		"customresourcecleanup.apiextensions.k8s.io", "batch.kubernetes.io/job-tracking":
		return true
	}
	return false
}

// FoldStringData moves the stringData of a Secret into its data, like a server.
func FoldStringData(o map[string]any) {
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

// IsTokenItem reports whether an item of a list of a Pod is the volume with the token of its
// service account, or mounts it.
func IsTokenItem(list string, item any) bool {
	m, _ := item.(map[string]any)
	switch list {
	case "volumes":
		name, _ := m["name"].(string)
		return m["projected"] != nil && strings.HasPrefix(name, "kube-api-access-")
	case "volumeMounts":
		return m["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
	}
	return false
}

// IsTokenOf reports whether an item names a secret that a controller made for a
// service account.
func IsTokenOf(account string, item any) bool {
	ref, _ := item.(map[string]any)
	name, _ := ref["name"].(string)
	return strings.HasPrefix(name, account+"-token-") || strings.HasPrefix(name, account+"-dockercfg-")
}
