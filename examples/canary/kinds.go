package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/slipway-dev/slipway/snapshot"
)

// kind is a kind that the program shows.
type kind struct {
	schema.GroupVersionKind
	plural string
	// words are what else it is called on the command line.
	words []string
	// clusterWide reports whether its objects are in no namespace.
	clusterWide bool
	// columns are those of its table, wide those that -o wide adds.
	columns, wide []column
}

// column is a column of kubectl's table of a kind, beside the name.
type column struct {
	name string
	cell func(obj *unstructured.Unstructured) string
}

var age = column{"AGE", func(obj *unstructured.Unstructured) string {
	made := obj.GetCreationTimestamp()
	if made.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(made.Time))
}}

// field is a column of what is at a path.
func field(name string, path ...string) column {
	return column{name, func(obj *unstructured.Unstructured) string {
		v, _, _ := unstructured.NestedFieldNoCopy(obj.Object, path...)
		return text(v)
	}}
}

// each is a column of a field of all elements of a list, with something between them.
func each(name, between, field string, path ...string) column {
	return column{name, func(obj *unstructured.Unstructured) string {
		var all []string
		list, _, _ := unstructured.NestedSlice(obj.Object, path...)
		for _, element := range list {
			m, _ := element.(map[string]any)
			if s := text(m[field]); s != "" {
				all = append(all, s)
			}
		}
		return strings.Join(all, between)
	}}
}

// first is each, of the first element alone: what a table shows of what is no text.
func first(name, field string, path ...string) column {
	c := each(name, " ", field, path...)
	return column{name, func(obj *unstructured.Unstructured) string {
		s, _, _ := strings.Cut(c.cell(obj), " ")
		return s
	}}
}

func text(v any) string {
	switch v := v.(type) {
	case nil, map[string]any, []any:
		return ""
	default:
		return fmt.Sprint(v)
	}
}

// number is a column of a count, 0 where there is none.
func number(name string, path ...string) column {
	return column{name, func(obj *unstructured.Unstructured) string { return cmp.Or(field("", path...).cell(obj), "0") }}
}

// condition is a column of the status of a condition.
func condition(name, conditionType string) column {
	return column{name, func(obj *unstructured.Unstructured) string {
		list, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
		for _, element := range list {
			if c, _ := element.(map[string]any); c["type"] == conditionType {
				return text(c["status"])
			}
		}
		return ""
	}}
}

// ready is the column of the replicas that are ready, of those that are wanted.
var ready = column{"READY", func(obj *unstructured.Unstructured) string {
	wanted := cmp.Or(field("", "spec", "replicas").cell(obj), "1")
	return number("", "status", "readyReplicas").cell(obj) + "/" + wanted
}}

var containers = []string{"spec", "template", "spec", "containers"}

// selector is the column of the labels by which a Deployment finds its Pods.
var selector = column{"SELECTOR", func(obj *unstructured.Unstructured) string {
	labels, _, _ := unstructured.NestedStringMap(obj.Object, "spec", "selector", "matchLabels")
	var all []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, key+"="+labels[key])
	}
	return strings.Join(all, ",")
}}

// phase is the column of what a Namespace is about to be.
var phase = column{"STATUS", func(obj *unstructured.Unstructured) string {
	if obj.GetDeletionTimestamp() != nil {
		return "Terminating"
	}
	return cmp.Or(field("", "status", "phase").cell(obj), "Active")
}}

// ports is the column of the ports of an Ingress, which it does not say.
var ports = column{"PORTS", func(obj *unstructured.Unstructured) string {
	if tls, _, _ := unstructured.NestedSlice(obj.Object, "spec", "tls"); len(tls) > 0 {
		return "80, 443"
	}
	return "80"
}}

var entries = column{"DATA", func(obj *unstructured.Unstructured) string {
	data, _, _ := unstructured.NestedMap(obj.Object, "data")
	return fmt.Sprint(len(data))
}}

var (
	deployments = kind{
		GroupVersionKind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, plural: "deployments", words: []string{"deployment", "deploy"},
		columns: []column{ready, number("UP-TO-DATE", "status", "updatedReplicas"), number("AVAILABLE", "status", "availableReplicas"), age},
		wide: []column{
			each("CONTAINERS", ",", "name", containers...), each("IMAGES", ",", "image", containers...), selector,
		},
	}
	applications = kind{
		GroupVersionKind: schema.GroupVersionKind{Group: "core.oam.dev", Version: "v1beta1", Kind: "Application"}, plural: "applications", words: []string{"application", "app"},
		columns: []column{
			each("COMPONENT", " ", "name", "spec", "components"), each("TYPE", " ", "type", "spec", "components"), field("PHASE", "status", "status"),
			first("HEALTHY", "healthy", "status", "services"), each("STATUS", " ", "message", "status", "services"), age,
		},
	}
	policies = kind{
		GroupVersionKind: schema.GroupVersionKind{Group: "core.oam.dev", Version: "v1alpha1", Kind: "Policy"}, plural: "policies", words: []string{"policy"},
		columns: []column{field("TYPE", "type")},
	}
	workflows = kind{
		GroupVersionKind: schema.GroupVersionKind{Group: "core.oam.dev", Version: "v1alpha1", Kind: "Workflow"}, plural: "workflows", words: []string{"workflow", "wf"},
		columns: []column{age},
	}
	managedClusters = kind{
		GroupVersionKind: schema.GroupVersionKind{Group: "cluster.open-cluster-management.io", Version: "v1", Kind: "ManagedCluster"}, plural: "managedclusters",
		words: []string{"managedcluster", "mcl"}, clusterWide: true,
		columns: []column{
			field("HUB ACCEPTED", "spec", "hubAcceptsClient"), each("MANAGED CLUSTER URLS", " ", "url", "spec", "managedClusterClientConfigs"),
			condition("JOINED", "ManagedClusterJoined"), condition("AVAILABLE", "ManagedClusterConditionAvailable"), age,
		},
	}
	namespaces = kind{
		GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, plural: "namespaces", words: []string{"namespace", "ns"}, clusterWide: true,
		columns: []column{phase, age},
	}
	configMaps = kind{
		GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, plural: "configmaps", words: []string{"configmap", "cm"},
		columns: []column{entries, age},
	}
	secrets = kind{
		GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, plural: "secrets", words: []string{"secret"},
		columns: []column{field("TYPE", "type"), entries, age},
	}
	ingresses = kind{
		GroupVersionKind: schema.GroupVersionKind{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"}, plural: "ingresses", words: []string{"ingress", "ing"},
		columns: []column{
			field("CLASS", "spec", "ingressClassName"), each("HOSTS", ",", "host", "spec", "rules"),
			each("ADDRESS", ",", "ip", "status", "loadBalancer", "ingress"), ports, age,
		},
	}

	kinds = []kind{applications, policies, workflows, deployments, configMaps, secrets, ingresses, namespaces, managedClusters}
)

// kindOf finds a kind by a word of the command line.
func kindOf(word string) (kind, bool) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.plural == word || slices.Contains(k.words, word) })
	if i < 0 {
		return kind{}, false
	}
	return kinds[i], true
}

// kindOfObject finds the kind of an object.
func kindOfObject(obj *unstructured.Unstructured) (kind, bool) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.GroupKind() == obj.GroupVersionKind().GroupKind() })
	if i < 0 {
		return kind{}, false
	}
	return kinds[i], true
}

func kindWords() (words []string) {
	for _, k := range kinds {
		words = append(words, k.words[0])
	}
	return words
}

// resource names the kind as an API server does in errors: deployments.apps.
func (k kind) resource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.plural}
}

// singular names one object of the kind as kubectl does in what it prints: deployment.apps.
func (k kind) singular() string {
	return schema.GroupResource{Group: k.Group, Resource: strings.ToLower(k.Kind)}.String()
}

func (k kind) id(namespace, name string) snapshot.ID {
	if k.clusterWide {
		namespace = ""
	}
	return snapshot.ID{Group: k.Group, Version: k.Version, Kind: k.Kind, Namespace: namespace, Name: name}
}

// query asks for the objects of the kind in a namespace, or the one of a name.
func (k kind) query(namespace, name string) snapshot.Query {
	return snapshot.Query(k.id(namespace, name))
}

// list puts objects into a List, as kubectl prints several.
func list(objs []*unstructured.Unstructured) *unstructured.UnstructuredList {
	l := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{"resourceVersion": ""}}}
	for _, o := range objs {
		l.Items = append(l.Items, *o)
	}
	return l
}

// condition makes a condition that holds.
func holds(conditionType, reason, message string, since time.Time) map[string]any {
	return map[string]any{
		"type": conditionType, "status": string(metav1.ConditionTrue), "reason": reason, "message": message,
		"lastTransitionTime": metav1.NewTime(since).UTC().Format(time.RFC3339),
	}
}
