package member

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/backend/kube/internal/api"
	"github.com/slipway-dev/slipway/snapshot"
)

// served is a kind that an API server serves, with its path.
type served struct {
	gvk        schema.GroupVersionKind
	resource   string
	namespaced bool
	// builtin reports whether the kind is known without asking the server.
	builtin bool
}

// location is the path of an object on an API server.
type location struct {
	served
	path string
}

// groupPath returns the path of a version of a group.
func groupPath(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + url.PathEscape(gv.Version)
	}
	return "/apis/" + url.PathEscape(gv.Group) + "/" + url.PathEscape(gv.Version)
}

// collection returns the path of the objects in a namespace, or in all namespaces if it is empty.
func (s served) collection(namespace string) string {
	path := groupPath(s.gvk.GroupVersion())
	if s.namespaced && namespace != "" {
		path += "/namespaces/" + url.PathEscape(namespace)
	}
	return path + "/" + s.resource
}

// location returns the location of an object. A missing or superfluous namespace is an error.
func (s served) location(id snapshot.ID) (location, error) {
	switch {
	case id.Name == "" || id.Name == "." || id.Name == "..":
		return location{}, api.Permanent(errors.New("metadata.name is not a name of an object"))
	case s.namespaced && (id.Namespace == "" || id.Namespace == "." || id.Namespace == ".."):
		return location{}, api.Permanent(errors.New("metadata.namespace is not the name of a namespace, and the kind is namespaced"))
	case !s.namespaced && id.Namespace != "":
		return location{}, api.Permanent(errors.New("metadata.namespace is set, and the kind is not namespaced"))
	}
	return location{s, s.collection(id.Namespace) + "/" + url.PathEscape(id.Name)}, nil
}

// freshness is the greatest age of an answer that a kind does not exist.
type freshness = time.Duration

const (
	// readFresh is for reads: the engine reads all objects of a set, one after the other.
	readFresh freshness = 2 * time.Second
	// writeFresh is for writes: the previous write may have defined the kind.
	writeFresh freshness = 100 * time.Millisecond
)

// mapper finds the paths of kinds. It requests one version of one group at a time, when it is
// needed, and makes no request for the stable kinds of Kubernetes. It keeps an answer until the
// server no longer has such a path; concurrent callers that miss the same kind share one request.
type mapper struct {
	client *client

	mu     sync.Mutex
	groups map[schema.GroupVersion]*group
	// defined has the times at which kinds were defined through this connection.
	defined map[schema.GroupVersionKind]time.Time
}

// group is the known content of one version of a group.
type group struct {
	asking chan struct{} // full while a request is under way
	asked  time.Time
	kinds  map[string]served
}

func newMapper(c *client) *mapper {
	return &mapper{client: c, groups: map[schema.GroupVersion]*group{}, defined: map[schema.GroupVersionKind]time.Time{}}
}

// find returns the path of a kind. An unserved kind is a meta.NoKindMatchError; that answer may
// be as old as age.
func (m *mapper) find(ctx context.Context, gvk schema.GroupVersionKind, age freshness) (served, error) {
	if gvk.Version == "" || gvk.Kind == "" {
		return served{}, api.Permanent(errors.New("apiVersion or kind is empty"))
	}
	g := m.group(gvk.GroupVersion())
	if s, fresh := m.known(g, gvk, age); fresh {
		return s, missing(s, gvk)
	}
	select {
	case g.asking <- struct{}{}:
		defer func() { <-g.asking }()
	case <-ctx.Done():
		return served{}, ctx.Err()
	}
	if s, fresh := m.known(g, gvk, age); fresh {
		return s, missing(s, gvk)
	}
	at := time.Now()
	kinds, err := m.ask(ctx, gvk.GroupVersion())
	if err != nil {
		return served{}, err
	}
	m.mu.Lock()
	g.asked, g.kinds = at, kinds
	m.mu.Unlock()
	return kinds[gvk.Kind], missing(kinds[gvk.Kind], gvk)
}

// missing returns the error of a kind that is not served.
func missing(s served, gvk schema.GroupVersionKind) error {
	if s.resource != "" {
		return nil
	}
	return &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
}

func (m *mapper) group(gv schema.GroupVersion) *group {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.groups[gv]
	if g == nil {
		g = &group{asking: make(chan struct{}, 1), kinds: builtins(gv)}
		m.groups[gv] = g
	}
	return g
}

// known returns the cached entry of a kind, and whether it is fresh enough.
func (m *mapper) known(g *group, gvk schema.GroupVersionKind, age freshness) (served, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := g.kinds[gvk.Kind]
	return s, ok || time.Since(g.asked) < age
}

// forgetUnserved forgets a kind that the server does not serve any more, and returns err. Every
// API server has ConfigMaps, which hold ledgers, and Namespaces. A server that denies it, such as
// a proxy whose server is starting, has no information about objects.
func (m *mapper) forgetUnserved(at location, err error) error {
	if !api.IsUnserved(err) {
		return err
	}
	if isCore(at.gvk.GroupVersion()) && (at.gvk.Kind == "ConfigMap" || at.gvk.Kind == "Namespace") {
		return api.ErrNoServer
	}
	g := m.group(at.gvk.GroupVersion())
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := g.kinds[at.gvk.Kind]; s == at.served {
		delete(g.kinds, at.gvk.Kind)
		g.asked = time.Now()
	}
	return missing(served{}, at.gvk)
}

// isCore reports whether gv is the version that every API server serves.
func isCore(gv schema.GroupVersion) bool { return gv.Group == "" && gv.Version == "v1" }

// ask requests the kinds in a version of a group.
func (m *mapper) ask(ctx context.Context, gv schema.GroupVersion) (map[string]served, error) {
	var list metav1.APIResourceList
	err := m.client.discover(ctx, groupPath(gv), &list)
	if api.IsUnserved(err) && isCore(gv) {
		return nil, api.ErrNoServer
	}
	if api.IsUnserved(err) {
		return map[string]served{}, nil
	}
	if err != nil {
		return nil, err
	}
	return kindsOf(gv, list.APIResources), nil
}

// discover reads a list of kinds at a path of an API server.
func (c *client) discover(ctx context.Context, path string, into any) error {
	body, err := c.do(ctx, request{verb: http.MethodGet, path: path})
	if err != nil {
		return err
	}
	if err := c.limits.check(body); err != nil {
		return api.Permanent(err)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return api.Permanent(errors.New("the member's list of kinds is no JSON of that kind"))
	}
	return nil
}

// kindsOf returns the kinds of a list whose objects can be read by name.
func kindsOf(gv schema.GroupVersion, resources []metav1.APIResource) map[string]served {
	kinds := map[string]served{}
	for _, r := range resources {
		if strings.Contains(r.Name, "/") || r.Name == "" || url.PathEscape(r.Name) != r.Name || !slices.Contains(r.Verbs, "get") {
			continue
		}
		if _, twice := kinds[r.Kind]; !twice {
			kinds[r.Kind] = served{gvk: gv.WithKind(r.Kind), resource: r.Name, namespaced: r.Namespaced}
		}
	}
	return kinds
}

// builtins returns the kinds that every API server has under fixed names, so that a connection
// that uses only these makes no discovery request.
func builtins(gv schema.GroupVersion) map[string]served {
	namespaced, cluster := builtinKinds(gv.String())
	kinds := map[string]served{}
	add := func(names string, namespaced bool) {
		for kind := range strings.FieldsSeq(names) {
			plural, _ := meta.UnsafeGuessKindToResource(gv.WithKind(kind))
			kinds[kind] = served{gvk: gv.WithKind(kind), resource: plural.Resource, namespaced: namespaced, builtin: true}
		}
	}
	add(namespaced, true)
	add(cluster, false)
	return kinds
}

func builtinKinds(gv string) (namespaced, cluster string) {
	switch gv {
	case "v1":
		return "ConfigMap LimitRange PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret Service ServiceAccount",
			"Namespace Node PersistentVolume"
	case "apps/v1":
		return "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet", ""
	case "batch/v1":
		return "CronJob Job", ""
	case "networking.k8s.io/v1":
		return "Ingress NetworkPolicy", "IngressClass"
	case "rbac.authorization.k8s.io/v1":
		return "Role RoleBinding", "ClusterRole ClusterRoleBinding"
	case "policy/v1":
		return "PodDisruptionBudget", ""
	case "autoscaling/v2":
		return "HorizontalPodAutoscaler", ""
	case "storage.k8s.io/v1":
		return "", "StorageClass"
	case "scheduling.k8s.io/v1":
		return "", "PriorityClass"
	case "apiextensions.k8s.io/v1":
		return "", "CustomResourceDefinition"
	case "admissionregistration.k8s.io/v1":
		return "", "MutatingWebhookConfiguration ValidatingWebhookConfiguration"
	}
	return "", ""
}
