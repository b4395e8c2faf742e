// Package members reconciles MemberClusters: it writes whether a member can be reached.
package members

import (
	"context"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/objects"
	"github.com/slipway-dev/slipway/hub/internal/queues"
	"github.com/slipway-dev/slipway/hub/status"
	"github.com/slipway-dev/slipway/placement"
)

// Reconciler writes whether members can be reached. It owns the hub's conditions in the status of MemberClusters.
type Reconciler struct {
	*objects.Client
	// Dialer reaches the members, nil where an updater does.
	Dialer   backend.Dialer
	Queues   *queues.Queues
	Clusters *objects.Clusters
}

// memberTimeout is how long a member may take to answer.
const memberTimeout = 10 * time.Second

// Reconcile writes whether a member can be reached.
func (r *Reconciler) Reconcile(ctx context.Context, k api.Key) (time.Duration, error) {
	obj := r.Object(api.MemberGVR(), k)
	if obj == nil {
		r.Queues.Members.Drop(k)
	}
	if obj == nil || obj.GetDeletionTimestamp() != nil || r.Dialer == nil {
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
