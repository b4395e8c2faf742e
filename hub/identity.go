package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// identityChecker is a dialer that refuses a member if another cluster answers under its name
// than the first time. A wrong address or a rebuilt cluster must not get the objects of the first
// cluster. The uid of the namespace kube-system identifies the cluster, and the store keeps it.
//
// A MemberCluster that is deleted and created again is a new member, and its cluster is recorded
// again.
type identityChecker struct {
	next  backend.Dialer
	store backend.Store
}

// memberIdentity is the record of a member.
type memberIdentity struct {
	// Member is the uid of the member in the inventory, Cluster the uid of the cluster's
	// namespace kube-system.
	Member  string `json:"member"`
	Cluster string `json:"cluster"`
}

// longestUID is far above the length of uids that API servers make.
const longestUID = 128

func pinKey(cluster string) string { return "hub/member/" + cluster }

// Dial connects to c and checks its identity.
func (d *identityChecker) Dial(ctx context.Context, c placement.Cluster) (backend.Conn, error) {
	conn, err := d.next.Dial(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := d.check(ctx, c, conn); err != nil {
		return nil, &backend.Error{Op: "dial", Object: c.Name, Err: errors.Join(err, conn.Close())}
	}
	return conn, nil
}

// check compares the identity of the cluster with the recorded one, and records it if there is
// none or if the member is new.
func (d *identityChecker) check(ctx context.Context, c placement.Cluster, conn backend.Conn) error {
	ns, err := conn.Get(ctx, snapshot.ID{Version: "v1", Kind: "Namespace", Name: "kube-system"})
	if err != nil {
		return err
	}
	if n := len(ns.GetUID()); n == 0 || n > longestUID {
		return fmt.Errorf("the uid of its namespace kube-system has %d characters, and must have 1 to %d: nothing was written: %w", n, longestUID, backend.ErrPermanent)
	}
	now := memberIdentity{Member: c.UID, Cluster: string(ns.GetUID())}
	rec, err := d.store.Get(ctx, pinKey(c.Name))
	if errors.Is(err, backend.ErrNotFound) {
		return d.write(ctx, c, now, "")
	}
	if err != nil {
		return err
	}
	var first memberIdentity
	if err := json.Unmarshal(rec.Value, &first); err != nil {
		return fmt.Errorf("record %s is none of a member: delete it, and the next cluster that is reached as %s is trusted: %w", rec.Key, c.Name, backend.ErrPermanent)
	}
	switch {
	case first == now:
		return nil
	case first.Member != now.Member:
		return d.write(ctx, c, now, rec.Revision)
	}
	return fmt.Errorf("the cluster was swapped: the uid of its namespace kube-system is %.64q, and was %s when it joined: nothing was written; if that is meant, delete MemberCluster %s and create it again: %w",
		now.Cluster, first.Cluster, c.Name, backend.ErrPermanent)
}

func (d *identityChecker) write(ctx context.Context, c placement.Cluster, p memberIdentity, prev backend.Revision) error {
	value, err := json.Marshal(p)
	if err != nil {
		return err
	}
	_, err = d.store.Put(ctx, pinKey(c.Name), value, prev)
	return err
}
