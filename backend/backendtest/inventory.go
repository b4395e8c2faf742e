package backendtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/placement"
)

// TestInventory proves an inventory that contains exactly the clusters in want.
func TestInventory(t *testing.T, inv backend.Inventory, want ...placement.Cluster) {
	t.Helper()
	if err := CheckInventory(t.Context(), inv, want...); err != nil {
		t.Error(err)
	}
}

// CheckInventory proves an inventory that contains exactly the clusters in want, and returns all
// violations. A UID that is empty in want matches any.
func CheckInventory(ctx context.Context, inv backend.Inventory, want ...placement.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return errors.Join(
		together(2, func(int) error { return yieldsOnce(ctx, inv, want) }),
		leaveInventory(ctx, inv),
		inventoryContext(ctx, inv),
		watchInventory(ctx, inv))
}

func yieldsOnce(ctx context.Context, inv backend.Inventory, want []placement.Cluster) error {
	missing := map[string]placement.Cluster{}
	for _, c := range want {
		missing[c.Name] = c
	}
	for got, err := range inv.Clusters(ctx) {
		if err != nil {
			return fmt.Errorf("clusters: %w", err)
		}
		c, ok := missing[got.Name]
		switch {
		case !ok:
			return fmt.Errorf("cluster %q is yielded twice or is not in the fleet (Clusters yields every cluster once)", got.Name)
		case c.UID != "" && c.UID != got.UID:
			return fmt.Errorf("cluster %q has uid %q, want %q", got.Name, got.UID, c.UID)
		case !maps.Equal(c.Labels, got.Labels):
			return fmt.Errorf("cluster %q has labels %v, want %v", got.Name, got.Labels, c.Labels)
		}
		if c.UID = got.UID; !c.Equal(got) {
			return fmt.Errorf("cluster %q is %+v, want %+v", got.Name, got, c)
		}
		delete(missing, got.Name)
	}
	if len(missing) > 0 {
		return fmt.Errorf("%d of %d clusters are not yielded (Clusters yields every cluster once)", len(missing), len(want))
	}
	return nil
}

func leaveInventory(ctx context.Context, inv backend.Inventory) error {
	for range inv.Clusters(ctx) {
		break
	}
	return nil
}

func inventoryContext(ctx context.Context, inv backend.Inventory) error {
	ended, cancel := context.WithCancel(ctx)
	cancel()
	var last error
	for _, err := range inv.Clusters(ended) {
		if last != nil {
			return errors.New("something is yielded after an error")
		}
		last = err
	}
	return wantTransient("clusters of a context that ended", last)
}

func watchInventory(ctx context.Context, inv backend.Inventory) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, err := range backend.WatchInventory(ctx, inv, poll) {
		if err != nil {
			return fmt.Errorf("watch: %w (WatchClusters yields once at its beginning)", err)
		}
		break
	}
	return nil
}

// TestDialer proves a dialer that reaches c, and then its connections with
// [TestConn].
func TestDialer(t *testing.T, d backend.Dialer, c placement.Cluster) {
	t.Helper()
	if err := CheckDialer(t.Context(), d, c); err != nil {
		t.Error(err)
	}
	TestConn(t, func(t *testing.T) backend.Conn {
		conn, err := d.Dial(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	})
}

// CheckDialer proves that a dialer reaches c, and no cluster that does not
// exist. It does not test the connections: see [CheckConn].
func CheckDialer(ctx context.Context, d backend.Dialer, c placement.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := d.Dial(ctx, c)
	if err != nil {
		return fmt.Errorf("dial %s: %w (Dial returns a connection to c)", c.Name, err)
	}
	ended, end := context.WithCancel(ctx)
	end()
	_, late := d.Dial(ended, c)
	_, unknown := d.Dial(ctx, placement.Cluster{Name: "slipway-test-no-such-cluster"})
	return errors.Join(conn.Close(),
		wantTransient("dial with a context that ended", late),
		want("dial a cluster that does not exist", unknown, backend.ErrNotFound))
}
