package member

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/backend"
)

//go:embed manifests/member-fence.yaml
var memberFence string

//go:embed manifests/member-rbac.yaml
var memberRBAC string

// FenceManifests returns ValidatingAdmissionPolicies with their bindings. With them, a member
// itself refuses the writes of a superseded engine: writes that would lower the epoch in a ledger
// or in the mark of a takeover, and the creation of an object under an older epoch than the ledger
// has. A connection returns their refusal as ErrFenced.
//
// They are optional. Without them, uid and resourceVersion still protect existing objects; the
// policies also prevent a writer that sends neither of the two from resetting a ledger. They
// recognize creations by connections with [Options].Fenced; without it, an older leader may still
// create a missing object, one for each cluster, as package fleet explains. They refuse such a
// creation as soon as the API server that handles it has seen the new ledger in its own watch,
// mostly within milliseconds; if a slow API server lets a creation through, the ledger still lists
// the object as suspect. After a ledger is deleted with its placement, they know nothing about it.
//
// Update them in place, and do not delete and reinstall them. If the last binding of policies with
// ConfigMaps as parameters disappears, an API server, as of Kubernetes 1.36, reads no newer
// ConfigMap until it is restarted (kubernetes/kubernetes#130887). Until then it refuses no
// creation. backendtest.CheckConn with a Fenced connection shows whether a member refuses.
//
// They find the engine's objects only by the label slipway.dev/applied, which a Fenced connection
// sets; an older object gets it with its next change. A policy without a selector would be
// evaluated, and could fail, for every object of the cluster.
//
// The engine sends no additional requests for them. For each created object with the label
// slipway.dev/applied, an API server compares the names of all ConfigMaps in the namespace
// slipway-system. That takes about 0.2 ms for each ConfigMap, and there is one for each placement
// on the member.
func FenceManifests() ([]*unstructured.Unstructured, error) { return manifests(memberFence) }

// InstallFence creates or updates the objects of [FenceManifests] on a member, as a field
// manager. The connection must have the right to write admission policies, which [RBACManifests]
// does not grant.
func InstallFence(ctx context.Context, conn backend.Conn, manager string) error {
	fence, err := FenceManifests()
	if err != nil {
		return err
	}
	for _, obj := range fence {
		if _, err := conn.Apply(ctx, obj, backend.ApplyOptions{Manager: manager}); err != nil {
			return fmt.Errorf("%s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
	}
	return nil
}

// RBACManifests returns the namespace of the ledgers and the least rights that subject needs on a
// member: to read, write, watch and delete ledgers, to identify and measure the cluster, and to
// read, watch, create, apply and delete the kinds that placements carry. If you remove list and
// watch, everything works, but by more frequent polling. If carried is empty, the kinds are the
// common ones of the file manifests/member-rbac.yaml, which is for the user slipway.
func RBACManifests(subject rbacv1.Subject, carried ...schema.GroupResource) ([]*unstructured.Unstructured, error) {
	objects, err := manifests(memberRBAC)
	if err != nil {
		return nil, err
	}
	for _, obj := range objects {
		if _, ok := obj.Object["subjects"]; ok {
			obj.Object["subjects"] = []any{subjectOf(subject)}
		}
		if obj.GetKind() == "ClusterRole" && obj.GetName() == "slipway-carried" && len(carried) > 0 {
			obj.Object["rules"] = rulesFor(carried)
		}
	}
	return objects, nil
}

// manifests reads the documents of a file.
func manifests(text string) (objects []*unstructured.Unstructured, err error) {
	for doc := range strings.SplitSeq(text, "\n---\n") {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &obj.Object); err != nil {
			return nil, fmt.Errorf("a manifest that is part of this package: %w", err)
		}
		objects = append(objects, obj)
	}
	return objects, nil
}

func subjectOf(s rbacv1.Subject) map[string]any {
	out := map[string]any{"kind": s.Kind, "name": s.Name}
	if s.APIGroup != "" {
		out["apiGroup"] = s.APIGroup
	}
	if s.Namespace != "" {
		out["namespace"] = s.Namespace
	}
	return out
}

func rulesFor(carried []schema.GroupResource) (rules []any) {
	for _, r := range carried {
		rules = append(rules, map[string]any{
			"apiGroups": []any{r.Group}, "resources": []any{r.Resource},
			"verbs": []any{"get", "list", "watch", "create", "patch", "delete"},
		})
	}
	return rules
}
