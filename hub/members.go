package hub

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/placement"
)

const (
	// memberCheck is how often a member is asked whether it can be reached,
	// memberRecheck how often one that could not, and memberJoin how often a new one
	// that could not yet.
	memberCheck   = 5 * time.Minute
	memberRecheck = 30 * time.Second
	memberJoin    = 5 * time.Second
	// memberTimeout is how long a member may take to answer.
	memberTimeout = 10 * time.Second
)

// syncMember writes whether a member can be reached.
func (s *service) syncMember(ctx context.Context, k key) (time.Duration, error) {
	obj := s.object(memberGVR(), k)
	if obj == nil {
		s.members.drop(k)
	}
	if obj == nil || obj.GetDeletionTimestamp() != nil || s.cfg.Dialer == nil {
		return 0, nil
	}
	cluster, err := s.member(ctx, k.Name)
	if err != nil {
		return 0, err
	}
	facts := memberFactsOf(obj, s.reach(ctx, cluster), time.Now())
	status, err := memberStatusOf(obj, projectMember(facts))
	if err != nil {
		return 0, err
	}
	if err := s.writeStatusMap(ctx, memberGVR(), obj, status); err != nil {
		return 0, err
	}
	return facts.again(), nil
}

// again is when the member is to be asked again.
func (f *memberFacts) again() time.Duration {
	switch {
	case f.joining():
		return memberJoin
	case f.Err != nil:
		return memberRecheck
	default:
		return memberCheck
	}
}

// memberStatusOf is the status of a member with the hub's conditions. What others
// report there stays: properties, usage, their agents and their conditions.
func memberStatusOf(obj *unstructured.Unstructured, now *memberStatus) (map[string]any, error) {
	own, err := toMap(now)
	if err != nil {
		return nil, err
	}
	whole, _, _ := unstructured.NestedMap(obj.Object, "status")
	if whole == nil {
		return own, nil
	}
	conditions, _ := own["conditions"].([]any)
	theirs, _, _ := unstructured.NestedSlice(whole, "conditions")
	for _, c := range theirs {
		if m, ok := c.(map[string]any); ok && !slices.ContainsFunc(now.Conditions, func(c metav1.Condition) bool { return c.Type == m["type"] }) {
			conditions = append(conditions, m)
		}
	}
	whole["conditions"] = conditions
	return whole, nil
}

// member is a cluster as the inventory has it.
func (s *service) member(ctx context.Context, name string) (placement.Cluster, error) {
	return s.roster.find(ctx, s.cfg.Inventory, name)
}

// roster is the inventory by name as it was a moment ago. Every member is looked up
// by itself, which must not list all of them each time.
type roster struct {
	mu  sync.Mutex
	at  time.Time
	all map[string]placement.Cluster
}

// rosterAge is how old it may be.
const rosterAge = time.Second

func (r *roster) find(ctx context.Context, inventory backend.Inventory, name string) (placement.Cluster, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.all[name]; ok && time.Since(r.at) < rosterAge {
		return c, nil
	}
	if err := r.list(ctx, inventory); err != nil {
		return placement.Cluster{}, err
	}
	if c, ok := r.all[name]; ok {
		return c, nil
	}
	return placement.Cluster{}, fmt.Errorf("the inventory does not have %s yet", name)
}

// listed are all clusters, by name. The caller does not change them.
func (r *roster) listed(ctx context.Context, inventory backend.Inventory) (map[string]placement.Cluster, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil || time.Since(r.at) >= rosterAge {
		if err := r.list(ctx, inventory); err != nil {
			return nil, err
		}
	}
	return r.all, nil
}

func (r *roster) list(ctx context.Context, inventory backend.Inventory) error {
	all := map[string]placement.Cluster{}
	for c, err := range inventory.Clusters(ctx) {
		if err != nil {
			return err
		}
		all[c.Name] = c
	}
	r.all, r.at = all, time.Now()
	return nil
}

// reach connects to a member, which asks it who it is.
func (s *service) reach(ctx context.Context, c placement.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	conn, err := s.cfg.Dialer.Dial(ctx, c)
	if err != nil {
		return err
	}
	return conn.Close()
}

// memberFactsOf is what is known of a member that was just asked: when it joined
// and since when it is as it is stands in its status.
func memberFactsOf(obj *unstructured.Unstructured, err error, now time.Time) *memberFacts {
	f := &memberFacts{Generation: obj.GetGeneration(), Created: obj.GetCreationTimestamp().Time, Err: err, Since: now, Now: now}
	if joined := conditionOf(obj, conditionJoined); joined.Status == "True" {
		f.Joined = joined.Since
	} else if err == nil {
		f.Joined = now
	}
	if healthy := conditionOf(obj, conditionHealthy); healthy.Status != "" && (healthy.Status == "True") == (err == nil) {
		f.Since = healthy.Since
	}
	return f
}
