package hubapi

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"

	clusterv1beta1 "github.com/slipway-dev/slipway/api/cluster/v1beta1"
	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/status"
)

// cordon is the key of the taint of kubectl fleet draincluster.
const cordon = "cordon-key"

// Cordon keeps further placements from picking a cluster, by the taint of kubectl fleet
// draincluster. [Hub.Uncordon] removes the taint. Cordon changes nothing if the cluster has one
// such taint already.
func (h *Hub) Cordon(ctx context.Context, cluster string) error {
	want, err := api.ToMap(&clusterv1beta1.Taint{Key: cordon, Value: "cordon-value", Effect: clusterv1beta1.TaintEffectNoSchedule})
	if err != nil {
		return err
	}
	return h.taint(ctx, cluster, want)
}

// Uncordon lets placements pick a cluster again. See [Hub.Cordon].
func (h *Hub) Uncordon(ctx context.Context, cluster string) error { return h.taint(ctx, cluster) }

// taint replaces the taint of a cordon by want. It writes nothing if the number of taints stays
// the same.
func (h *Hub) taint(ctx context.Context, cluster string, want ...any) error {
	members := h.client.Resource(api.MemberGVR())
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		u, err := members.Get(ctx, cluster, metav1.GetOptions{})
		if err != nil {
			return err
		}
		taints, _, err := unstructured.NestedSlice(u.Object, "spec", "taints")
		if err != nil {
			return err
		}
		others := slices.DeleteFunc(slices.Clone(taints), func(t any) bool {
			m, ok := t.(map[string]any)
			return ok && m["key"] == cordon
		})
		if len(others)+len(want) == len(taints) {
			return nil
		}
		if err := unstructured.SetNestedSlice(u.Object, append(others, want...), "spec", "taints"); err != nil {
			return err
		}
		_, err = members.Update(ctx, u, metav1.UpdateOptions{FieldManager: manager})
		return err
	})
}

// CheckMember returns an error that matches backend.ErrNotFound if a hub has no member of this
// name.
func CheckMember(ctx context.Context, h *Hub, cluster string) error {
	_, err := h.client.Resource(api.MemberGVR()).Get(ctx, cluster, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("the hub has no member %s; kubectl get memberclusters lists all: %w", cluster, backend.ErrNotFound)
	}
	return err
}

// Drain cordons a cluster, and evicts each placement without a namespace from it, as kubectl
// fleet draincluster does. It calls done with the hub's answer for each executed eviction. The
// error names the placements that the hub refuses to evict or has not answered for yet, and the
// ResourcePlacements that stay, because the Fleet API has no eviction of them.
func (h *Hub) Drain(ctx context.Context, cluster string, done func(placement, answer string)) error {
	if err := h.Cordon(ctx, cluster); err != nil {
		return err
	}
	bindings, err := h.resource(api.BindingKind, "").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var failed []error
	for i := range bindings.Items {
		on, placement := status.BoundTo(&bindings.Items[i])
		if on != cluster {
			continue
		}
		switch executed, answer, err := h.evict(ctx, placement, cluster); {
		case err != nil:
			failed = append(failed, fmt.Errorf("placement %s: %w", placement, err))
		case !executed:
			failed = append(failed, fmt.Errorf("placement %s: %s", placement, answer))
		default:
			done(placement, answer)
		}
	}
	staying, err := h.namespacedOn(ctx, cluster)
	for _, name := range staying {
		failed = append(failed, fmt.Errorf("resourceplacement %s stays on %s: there is no eviction of it; change its policy so that it does not pick %s, or delete it", name, cluster, cluster))
	}
	return errors.Join(append(failed, err)...)
}

// namespacedOn returns the ResourcePlacements of all namespaces that have objects on a cluster,
// as NAMESPACE/NAME.
func (h *Hub) namespacedOn(ctx context.Context, cluster string) (names []string, err error) {
	all, err := h.client.Resource(api.NamespaceScope.GVR(api.PlacementKind)).Namespace(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, explain(err, "", "editor")
	}
	for i := range all.Items {
		if u := &all.Items[i]; slices.Contains(status.PlacedOn(u), cluster) {
			names = append(names, u.GetNamespace()+"/"+u.GetName())
		}
	}
	slices.Sort(names)
	return names, nil
}

// evict creates an eviction, and returns the hub's answer.
func (h *Hub) evict(ctx context.Context, placement, cluster string) (executed bool, answer string, err error) {
	u, err := api.New(api.ClusterScope.GVK(api.EvictionKind), &v1beta1.PlacementEvictionSpec{PlacementName: placement, ClusterName: cluster})
	if err != nil {
		return false, "", err
	}
	u.SetGenerateName("drain-eviction-")
	if u, err = h.resource(api.EvictionKind, "").Create(ctx, u, metav1.CreateOptions{FieldManager: manager}); err != nil {
		return false, "", err
	}
	answer = "the hub has not answered eviction " + u.GetName() + " yet"
	err = (&Hub{client: h.client}).await(ctx, api.EvictionKind, u.GetName(), func(u *unstructured.Unstructured) (bool, error) {
		done, why, answered := status.EvictionOutcome(u)
		if answered {
			executed, answer = done, why
		}
		return answered, nil
	})
	return executed, answer, err
}
