package inventory

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	kubewatch "github.com/slipway-dev/slipway/backend/kube/internal/watch"
)

// oneMember is a collection of one MemberCluster; the test sends its changes.
type oneMember struct {
	first   *unstructured.Unstructured
	changes chan watch.Event
}

func (c oneMember) client() kubewatch.Client {
	return kubewatch.Of(func(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
		list := &unstructured.UnstructuredList{Items: []unstructured.Unstructured{*c.first}}
		list.SetResourceVersion("1")
		return list, nil
	}, func(context.Context, metav1.ListOptions) (watch.Interface, error) {
		return watch.NewProxyWatcher(c.changes), nil
	})
}

// memberAt is a MemberCluster of a version that reports nodes, and was heard of at
// a time.
func memberAt(version, nodes int, heard time.Time) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster",
		"status": map[string]any{
			"properties":  map[string]any{"nodes": map[string]any{"value": strconv.Itoa(nodes)}},
			"agentStatus": []any{map[string]any{"type": "MemberAgent", "lastReceivedHeartbeat": heard.Format(time.RFC3339)}},
		},
	}}
	obj.SetName("a")
	obj.SetResourceVersion(strconv.Itoa(version))
	return obj
}

// The inventory announces frequently changing properties at most every half minute, and returns
// current properties at every call. It announces a missing heartbeat once, when it is overdue.
func TestInventoryNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		c := oneMember{memberAt(1, 0, began), make(chan watch.Event)}
		inv := newInventory(inventoryKind{name: "MemberCluster", read: memberCluster}, c.client(), Options{})
		ctx, stop := context.WithCancel(t.Context())
		var told []time.Duration
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range inv.WatchClusters(ctx) {
				told = append(told, time.Since(began))
			}
		}()
		for i := 1; i <= 50; i++ {
			time.Sleep(time.Second)
			c.changes <- watch.Event{Type: watch.Modified, Object: memberAt(1+i, i, time.Now())}
			synctest.Wait()
			for one, err := range inv.Clusters(ctx) {
				if q := one.Properties["nodes"]; err != nil || q.Value() != int64(i) {
					t.Errorf("after %d s: %v, %v", i, one, err)
				}
			}
		}
		time.Sleep(time.Hour)
		stop()
		<-done
		want := []time.Duration{0, 30 * time.Second, time.Minute, 50*time.Second + heartbeatLasts + time.Millisecond, 50*time.Second + heartbeatLasts + time.Millisecond}
		if len(told) != len(want) {
			t.Fatalf("told at %v, want %v", told, want) // the last is the end of the watch
		}
		for i := range want[:4] {
			if told[i] != want[i] {
				t.Errorf("told at %v, want %v", told, want)
			}
		}
		if err := inv.Close(); err != nil {
			t.Error(err)
		}
		if inv.recheck.timer != nil {
			t.Error("a closed inventory evaluates")
		}
	})
}

// A namespace that a member gains or loses is reported within a second, because a placement may
// wait for it. Changes of properties may take longer.
func TestNamespacesOfAMemberAreReportedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		member := func(version, nodes int, namespaces ...string) *unstructured.Unstructured {
			obj, all := memberAt(version, nodes, time.Now()), map[string]any{}
			for _, ns := range namespaces {
				all[ns] = ""
			}
			status := obj.Object["status"].(map[string]any)
			status["namespaces"] = all
			status["conditions"] = []any{map[string]any{"type": "NamespaceCollectionSucceeded", "status": "True"}}
			return obj
		}
		c := oneMember{member(1, 0, "a"), make(chan watch.Event)}
		inv := newInventory(inventoryKind{name: "MemberCluster", read: memberCluster}, c.client(), Options{})
		ctx, stop := context.WithCancel(t.Context())
		var told []time.Duration
		done := make(chan struct{})
		go func() {
			defer close(done)
			for _, err := range inv.WatchClusters(ctx) {
				if err == nil {
					told = append(told, time.Since(began))
				}
			}
		}()
		time.Sleep(5 * time.Second)
		c.changes <- watch.Event{Type: watch.Modified, Object: member(2, 1, "a")}
		time.Sleep(5 * time.Second)
		c.changes <- watch.Event{Type: watch.Modified, Object: member(3, 2, "a", "b")}
		time.Sleep(500 * time.Millisecond)
		c.changes <- watch.Event{Type: watch.Modified, Object: member(4, 2, "a", "b", "c")}
		time.Sleep(time.Minute)
		c.changes <- watch.Event{Type: watch.Modified, Object: member(5, 2, "a")}
		time.Sleep(10 * time.Second)
		stop()
		<-done
		want := []time.Duration{0, 11 * time.Second, 70500 * time.Millisecond}
		if !slices.Equal(told, want) {
			t.Errorf("told at %v, want %v", told, want)
		}
		if err := inv.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A member with the condition Healthy=False for a moment is still picked. After five minutes it
// receives nothing new, with one notification, until it is healthy again. A member that never
// joined receives nothing at all.
func TestBrieflyUnhealthyMemberIsPicked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := oneMember{ill(memberAt(1, 0, time.Now()), "Healthy", time.Now()), make(chan watch.Event)}
		inv := newInventory(inventoryKind{name: "MemberCluster", read: memberCluster}, c.client(), Options{})
		var told atomic.Int64
		done := make(chan struct{})
		go func() {
			defer close(done)
			for _, err := range inv.WatchClusters(t.Context()) {
				if err == nil {
					told.Add(1)
				}
			}
		}()
		wants := func(after time.Duration, unhealthy string, tidings int64) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			for one, err := range inv.Clusters(t.Context()) {
				if err != nil || one.Unhealthy != unhealthy || told.Load() != tidings {
					t.Errorf("it is %q after %d tidings, want %q after %d: %v", one.Unhealthy, told.Load(), unhealthy, tidings, err)
				}
			}
		}
		change := func(version int, obj *unstructured.Unstructured) {
			obj.SetResourceVersion(strconv.Itoa(version))
			c.changes <- watch.Event{Type: watch.Modified, Object: obj}
		}
		const healthy, joined = "its condition Healthy is False", "its condition Joined is False"
		wants(0, "", 1)
		wants(problemLasts-time.Second, "", 1)
		change(2, ill(memberAt(2, 0, time.Now()), "Healthy", time.Now().Add(time.Second-problemLasts)))
		wants(0, "", 1)
		wants(time.Second, healthy, 2)
		change(3, memberAt(3, 0, time.Now()))
		wants(0, "", 3)
		change(4, ill(memberAt(4, 0, time.Now()), "Healthy", time.Now()))
		wants(0, "", 3)
		change(5, memberAt(5, 0, time.Now()))
		wants(problemLasts, "", 3)
		change(6, ill(memberAt(6, 0, time.Now()), "Joined", time.Now()))
		wants(0, joined, 4)
		change(7, ill(memberAt(7, 0, time.Now()), "Healthy", time.Time{}))
		wants(0, healthy, 5)
		if err := inv.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
}

// ill sets a condition of a member to False since a time; a zero time is omitted.
func ill(obj *unstructured.Unstructured, kind string, since time.Time) *unstructured.Unstructured {
	condition := map[string]any{"type": kind, "status": "False"}
	if !since.IsZero() {
		condition["lastTransitionTime"] = since.Format(time.RFC3339)
	}
	_ = unstructured.SetNestedSlice(obj.Object, []any{condition}, "status", "conditions")
	return obj
}
