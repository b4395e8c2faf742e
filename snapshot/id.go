package snapshot

import (
	"cmp"
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// setOrder lists the kinds with a known position in a set, one per line, first to last. It is
// KubeFleet's list with CustomResourceDefinitions moved to the front. An object's rank is the
// offset of its kind in this text. The order is part of the stored format: a page in another
// order is refused, and the digest of a set covers its order. Objects are applied in a different
// order: see [Phase].
const setOrder = `
PriorityClass.scheduling.k8s.io
Namespace
CustomResourceDefinition.apiextensions.k8s.io
NetworkPolicy.networking.k8s.io
ResourceQuota
LimitRange
PodDisruptionBudget.policy
ServiceAccount
Secret
ConfigMap
StorageClass.storage.k8s.io
PersistentVolume
PersistentVolumeClaim
ClusterRole.rbac.authorization.k8s.io
ClusterRoleBinding.rbac.authorization.k8s.io
Role.rbac.authorization.k8s.io
RoleBinding.rbac.authorization.k8s.io
Service
DaemonSet.apps
Pod
ReplicationController
ReplicaSet.apps
Deployment.apps
HorizontalPodAutoscaler.autoscaling
StatefulSet.apps
Job.batch
CronJob.batch
IngressClass.networking.k8s.io
Ingress.networking.k8s.io
APIService.apiregistration.k8s.io
`

// admissionOrder lists the kinds that come after all unranked kinds.
const admissionOrder = `
MutatingWebhookConfiguration.admissionregistration.k8s.io
ValidatingWebhookConfiguration.admissionregistration.k8s.io
`

// rank returns the position of a kind in a set, lower first.
func rank(group, kind string) int {
	line := "\n" + kind + "\n"
	if group != "" {
		line = "\n" + kind + "." + group + "\n"
	}
	if i := strings.Index(setOrder, line); i >= 0 {
		return i
	}
	if i := strings.Index(admissionOrder, line); i >= 0 {
		return len(setOrder) + 1 + i
	}
	return len(setOrder)
}

// IDOf returns the name of an object. Parts that are missing, or that are no strings, are empty.
func IDOf(obj *unstructured.Unstructured) ID {
	if obj == nil {
		return ID{}
	}
	return idOf(obj.Object)
}

func idOf(obj map[string]any) ID {
	meta, _ := obj["metadata"].(map[string]any)
	id := ID{Version: text(obj, "apiVersion"), Kind: text(obj, "kind"), Namespace: text(meta, "namespace"), Name: text(meta, "name")}
	if i := strings.LastIndexByte(id.Version, '/'); i >= 0 {
		id.Group, id.Version = id.Version[:i], id.Version[i+1:]
	}
	return id
}

func text(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return s
}

// String returns the name for people, for example "ConfigMap.v1
// test-namespace/test-cm" or "Deployment.v1.apps test-namespace/web".
func (id ID) String() string {
	var b strings.Builder
	b.WriteString(cmp.Or(id.Kind, "object"))
	for _, part := range [...]string{id.Version, id.Group} {
		if part != "" {
			b.WriteString("." + part)
		}
	}
	b.WriteByte(' ')
	if id.Namespace != "" {
		b.WriteString(id.Namespace + "/")
	}
	b.WriteString(cmp.Or(id.Name, "(no name)"))
	return b.String()
}

// Compare returns -1, 0 or 1 if id comes before, with or after other in a [Set]. The known kinds
// have fixed positions: namespaces and definitions first, then the dependencies of workloads,
// workloads, and webhooks at the very end. Other kinds come just before the webhooks. Ties are
// decided by group, kind, namespace, name and, last, version.
func (id ID) Compare(other ID) int {
	if id.Kind != other.Kind || id.Group != other.Group {
		if c := cmp.Compare(rank(id.Group, id.Kind), rank(other.Group, other.Kind)); c != 0 {
			return c
		}
	}
	return id.compareText(other)
}

// compareText compares two names of equal rank.
func (id ID) compareText(other ID) int {
	if c := id.object().compareObject(other); c != 0 {
		return c
	}
	return strings.Compare(id.Version, other.Version)
}

func (id ID) compareObject(other ID) int {
	if c := strings.Compare(id.Group, other.Group); c != 0 {
		return c
	}
	if c := strings.Compare(id.Kind, other.Kind); c != 0 {
		return c
	}
	if c := strings.Compare(id.Namespace, other.Namespace); c != 0 {
		return c
	}
	return strings.Compare(id.Name, other.Name)
}

// object returns the ID without the version, which identifies the object in a cluster.
func (id ID) object() ID {
	id.Version = ""
	return id
}

// check returns an error if a part is missing that every object needs.
func (id ID) check() error {
	if err := id.checkKind(); err != nil {
		return err
	}
	if id.Name == "" {
		return errors.New("metadata.name is missing")
	}
	return nil
}

// checkKind returns an error if a part of the kind is missing.
func (id ID) checkKind() error {
	switch {
	case id.Version == "" || strings.Contains(id.Group, "/"):
		return errors.New("apiVersion must be <version> or <group>/<version>")
	case id.Kind == "":
		return errors.New("kind is missing")
	}
	return nil
}

// String returns the kind for people, for example "ConfigMap" or "Deployment.apps".
func (k GroupKind) String() string {
	switch {
	case k.Group == "":
		return k.Kind
	case k.Kind == "":
		return k.Group
	}
	return k.Kind + "." + k.Group
}

func (k GroupKind) compare(other GroupKind) int {
	return cmp.Or(strings.Compare(k.Group, other.Group), strings.Compare(k.Kind, other.Kind))
}

func isNamespace(id ID) bool {
	return id.Group == "" && id.Kind == "Namespace"
}

// namespaceOf returns the name of a Namespace, or the namespace of another object.
func namespaceOf(id ID) string {
	if isNamespace(id) {
		return id.Name
	}
	return id.Namespace
}

// envelopeGroup is the API group of envelopes and of all other fleet objects about placements.
const envelopeGroup = "placement.kubernetes-fleet.io"

// isEnvelope reports whether the object is an envelope, which stands for its contents.
func isEnvelope(id ID) bool {
	return id.Group == envelopeGroup && (id.Kind == "ResourceEnvelope" || id.Kind == "ClusterResourceEnvelope")
}
