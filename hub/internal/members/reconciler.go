// Package members reconciles MemberClusters: it writes whether a member can be reached, and labels it with its name.
package members

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/objects"
	"github.com/slipway-dev/slipway/hub/internal/queues"
	"github.com/slipway-dev/slipway/hub/status"
	"github.com/slipway-dev/slipway/placement"
)

// Reconciler writes whether members can be reached. It owns the hub's conditions in the status of
// MemberClusters, and their label with their name.
type Reconciler struct {
	*objects.Client
	// Dialer reaches the members, nil where an updater does.
	Dialer   backend.Dialer
	Queues   *queues.Queues
	Clusters *objects.Clusters
}

// memberTimeout is how long a member may take to answer.
const memberTimeout = 10 * time.Second

// Reconcile labels a member, and writes whether it can be reached.
func (r *Reconciler) Reconcile(ctx context.Context, k api.Key) (time.Duration, error) {
	obj := r.Object(api.MemberGVR(), k)
	if obj == nil {
		r.Queues.Members.Drop(k)
	}
	if obj == nil || obj.GetDeletionTimestamp() != nil {
		return 0, nil
	}
	if err := r.label(ctx, obj); err != nil {
		return 0, err
	}
	if r.Dialer == nil {
		return 0, nil
	}
	cluster, err := r.Clusters.Find(ctx, k.Name)
	if err != nil {
		return 0, err
	}
	facts := status.MemberFactsOf(obj, r.reach(ctx, cluster), time.Now())
	st, err := status.MemberStatusOf(obj, status.Member(facts))
	if err != nil {
		return 0, err
	}
	if err := r.WriteStatusMap(ctx, api.MemberGVR(), obj, st); err != nil {
		return 0, err
	}
	return facts.Again(), nil
}

// label gives a member the label with its name, for those who select or list members by it. Without the right to do so the
// hub serves the member all the same: its inventory does not read the label.
func (r *Reconciler) label(ctx context.Context, obj *unstructured.Unstructured) error {
	name := obj.GetName()
	if obj.GetLabels()[api.LabelMemberName] == name || len(validation.IsValidLabelValue(name)) > 0 {
		return nil
	}
	err := r.Label(ctx, api.MemberGVR(), obj, api.LabelMemberName, name)
	if apierrors.IsForbidden(err) {
		r.Recorder.Warning(obj, "NotLabelled", "the label %s cannot be written: %v", api.LabelMemberName, err)
		return nil
	}
	return err
}

// reach connects to a member, which asks it who it is.
func (r *Reconciler) reach(ctx context.Context, c placement.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	conn, err := r.Dialer.Dial(ctx, c)
	if err != nil {
		return err
	}
	return conn.Close()
}
