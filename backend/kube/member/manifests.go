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

// FenceManifests returns ValidatingAdmissionPolicies with their bindings that make a member itself refuse
// the writes of an engine that was replaced: those that would lower the epoch in a ledger or in the
// mark of a takeover, and those that create an object by an epoch that is older than the ledger's. A connection returns their refusal as ErrFenced.
//
// They are optional. What the engine writes over is refused without them, by uid and resourceVersion;
// they add that a writer that carries neither cannot take a ledger back either. What it creates they
// know from connections with [Options].Fenced; without, an older leader may still create an object
// that is missing, one of each cluster, as package fleet says. They refuse that from the moment when the
// API server that is asked has seen the ledger, which is when its own watch has: mostly within
// milliseconds of the write, and for what a slow one lets through the doubt of the ledger remains. Once
// a ledger is deleted, with its placement, they know nothing of it.
//
// Change them where they are, and do not delete and install them again: an API server, as of Kubernetes
// 1.36, that has seen the last binding go of policies with ConfigMaps as parameters reads no newer
// ConfigMap until it is started again (kubernetes/kubernetes#130887), and refuses no creation then.
// Whether a member does can be seen by backendtest.CheckConn, with a connection that is Fenced.
//
// They find what the engine applies by the label slipway.dev/applied, which a Fenced connection puts on it, and no other: an
// object that was there before has it with its next change. A policy without a selector would be asked, and could fail,
// for every object of the cluster.
//
// The engine sends no request more for them. An API server compares each object that is created, of the
// label slipway.dev/applied, with every ConfigMap in the namespace slipway-system, by name: that takes it
// about 0.2 ms for each, which is for each placement on the member.
func FenceManifests() ([]*unstructured.Unstructured, error) { return manifests(memberFence) }

// InstallFence creates what [FenceManifests] returns on a member, or brings it up to date, as a field manager. The
// connection must be allowed to write admission policies, which one by [RBACManifests] is not.
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

// RBACManifests returns the namespace of the ledgers and the least that subject needs on a member: to
// read, write, watch and delete ledgers, to see which cluster it is and what it is made of, and to read, watch, create, apply and
// delete the kinds that placements carry. Without list and watch everything works, by looking more
// often. No kinds are the common ones of the file manifests/member-rbac.yaml, which is for the user
// slipway.
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
