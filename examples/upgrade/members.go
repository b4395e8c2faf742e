package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/formats/azure"
	"github.com/slipway-dev/slipway/placement"
)

// member is a member of the fleet as it was declared.
type member struct {
	Format int               `json:"format"`
	Name   string            `json:"name"`
	ID     string            `json:"clusterResourceId"`
	Group  string            `json:"group,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	// UID tells it from another one of that name.
	UID string `json:"uid"`
	// What is simulated: where it is, what it has at first, how it behaves.
	Region  string        `json:"region"`
	Version string        `json:"version"`
	Takes   time.Duration `json:"takes"`
	Fail    int           `json:"fail,omitempty"`
}

// regionLabel is the label of a cluster that has the name of its region.
const regionLabel = "topology.kubernetes.io/region"

// cluster returns the member as the engine knows it.
func (m *member) cluster() placement.Cluster {
	labels := map[string]string{regionLabel: m.Region}
	maps.Copy(labels, m.Labels)
	if m.Group != "" {
		labels[azure.UpdateGroupLabel] = m.Group
	}
	return placement.Cluster{Name: m.Name, UID: m.UID, Labels: labels}
}

// labelProblem says what is wrong with a label.
func labelProblem(key, value string) string {
	return strings.Join(append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...), "; ")
}

// inventory is the members, as the engine lists them.
type inventory struct{ store *store }

var _ backend.InventoryWatcher = inventory{}

// Clusters yields the members.
func (i inventory) Clusters(ctx context.Context) iter.Seq2[placement.Cluster, error] {
	return func(yield func(placement.Cluster, error) bool) {
		members, err := each[member](ctx, i.store, memberKeys)
		if err != nil {
			yield(placement.Cluster{}, err)
			return
		}
		for n := range members {
			if !yield(members[n].cluster(), nil) {
				return
			}
		}
	}
}

// WatchClusters yields when members have changed.
func (i inventory) WatchClusters(ctx context.Context) iter.Seq2[struct{}, error] {
	return func(yield func(struct{}, error) bool) {
		if !yield(struct{}{}, nil) {
			return
		}
		for _, err := range i.store.Watch(ctx, memberKeys) {
			if !yield(struct{}{}, err) {
				return
			}
		}
	}
}

func createMember(ctx context.Context, s *session) error {
	m := member{
		Format: keptVersion, Name: s.name(), ID: s.one("member-cluster-id"), Group: s.one("update-group"),
		Labels: s.labels(), UID: fmt.Sprintf("%s-%d", s.name(), time.Now().UnixNano()),
		Region: cmp.Or(s.one("region"), "eastus"), Version: cmp.Or(s.one("from-version"), "1.25.6"),
		Takes: cmp.Or(s.duration("takes"), 2*time.Second), Fail: s.number("fail"),
	}
	err := s.store.write(ctx, memberKeys+m.Name, m, "")
	if errors.Is(err, backend.ErrConflict) {
		return fmt.Errorf("member %s is there already: update it, or delete it first", m.Name)
	}
	if err != nil {
		return err
	}
	return s.member(ctx, m)
}

// labels returns those of --labels.
func (l *line) labels() map[string]string {
	if !l.given("labels") {
		return nil
	}
	out := map[string]string{}
	for _, label := range l.values["labels"] {
		key, value, _ := strings.Cut(label, "=")
		out[key] = value
	}
	return out
}

func updateMember(ctx context.Context, s *session) error {
	for {
		m, rev, err := s.store.member(ctx, s.name())
		if err != nil {
			return err
		}
		if s.given("update-group") {
			m.Group = s.one("update-group")
		}
		if s.given("labels") {
			m.Labels = s.labels()
		}
		err = s.store.write(ctx, memberKeys+m.Name, m, rev)
		if errors.Is(err, backend.ErrConflict) {
			continue
		}
		if err != nil {
			return err
		}
		return s.member(ctx, m)
	}
}

// member reads a member.
func (s *store) member(ctx context.Context, name string) (member, backend.Revision, error) {
	var m member
	rev, err := s.read(ctx, memberKeys+name, &m)
	if errors.Is(err, backend.ErrNotFound) {
		err = fmt.Errorf("there is no member %s: member list shows which there are", name)
	}
	return m, rev, err
}

func showMember(ctx context.Context, s *session) error {
	m, _, err := s.store.member(ctx, s.name())
	if err != nil {
		return err
	}
	return s.member(ctx, m)
}

func deleteMember(ctx context.Context, s *session) error {
	if _, _, err := s.store.member(ctx, s.name()); err != nil {
		return err
	}
	return s.store.remove(ctx, memberKeys+s.name())
}

// memberView is a member as it is printed: az's fields, and how the cluster is.
type memberView struct {
	ClusterResourceID string            `json:"clusterResourceId"`
	Group             *string           `json:"group"`
	Labels            map[string]string `json:"labels,omitempty"`
	Name              string            `json:"name"`
	ResourceGroup     string            `json:"resourceGroup"`
	Cluster           clusterView       `json:"cluster"`
}

// clusterView is how a simulated cluster is.
type clusterView struct {
	Region    string         `json:"region"`
	Version   string         `json:"kubernetesVersion"`
	Pools     []upgrade.Pool `json:"nodePools"`
	Operation string         `json:"operation,omitempty"`
}

// view returns a member with how its cluster is now.
func (s *session) view(ctx context.Context, sim *simulator, m member) (memberView, error) {
	c, err := sim.Describe(ctx, m.cluster())
	if err != nil {
		return memberView{}, err
	}
	v := memberView{ClusterResourceID: m.ID, Labels: m.Labels, Name: m.Name, ResourceGroup: s.one("resource-group")}
	if m.Group != "" {
		v.Group = &m.Group
	}
	v.Cluster = clusterView{Region: c.Region, Version: c.ControlPlane, Pools: c.Pools}
	for i := range v.Cluster.Pools {
		v.Cluster.Pools[i].Images = nil
	}
	if c.Operation != nil {
		v.Cluster.Operation = string(c.Operation.State)
	}
	return v, nil
}

func (s *session) member(ctx context.Context, m member) error {
	sim, err := newSimulator(ctx, s.store)
	if err != nil {
		return err
	}
	v, err := s.view(ctx, sim, m)
	if err != nil {
		return err
	}
	return s.print(v, func() { s.memberTable([]memberView{v}) })
}

func listMembers(ctx context.Context, s *session) error {
	sim, err := newSimulator(ctx, s.store)
	if err != nil {
		return err
	}
	members, err := each[member](ctx, s.store, memberKeys)
	if err != nil {
		return err
	}
	views := []memberView{}
	for _, m := range members {
		v, err := s.view(ctx, sim, m)
		if err != nil {
			return err
		}
		views = append(views, v)
	}
	return s.print(views, func() { s.memberTable(views) })
}
