package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// session is what a command works with, whether clusters are simulated or real.
type session struct {
	line
	printer
	*controller
	dialer backend.Dialer
	// by is who gives the commands.
	by approval.Identity
}

// do carries out a command that the hub and the members are asked for, and reports whether it is one.
func (s *session) do(ctx context.Context) (known bool, err error) {
	switch s.words[0] {
	case "get":
		return true, s.get(ctx)
	case "workflow":
		return true, s.workflow(ctx, s.words[1], s.words[2])
	}
	return false, nil
}

// get shows objects of the hub, or one of a member.
func (s *session) get(ctx context.Context) error {
	k, _ := kindOf(s.words[1])
	name := ""
	if len(s.words) > 2 {
		name = s.words[2]
	}
	if s.cluster != "" {
		return s.getFrom(ctx, k, name)
	}
	objs, err := collect(ctx, s.hub, k.query(s.namespace, name))
	switch {
	case err != nil:
		return err
	case name != "" && len(objs) == 0:
		return s.notFound(k, name)
	case name != "":
		return s.object(k, objs[0])
	case len(objs) == 0 && !s.json:
		where := ""
		if !k.clusterWide {
			where = fmt.Sprintf(" in %s namespace", s.namespace)
		}
		fmt.Fprintf(s.err, "No resources found%s.\n", where)
		return nil
	}
	return s.objects(k, objs)
}

// getFrom shows an object of a member.
func (s *session) getFrom(ctx context.Context, k kind, name string) error {
	member, err := s.member(ctx, s.cluster)
	if err != nil {
		return err
	}
	conn, err := s.dialer.Dial(ctx, member)
	if err != nil {
		return err
	}
	obj, err := conn.Get(ctx, k.id(s.namespace, name))
	err = errors.Join(err, conn.Close())
	if !s.json {
		err = errors.Join(err, s.say("Run on ManagedCluster %s", s.cluster))
	}
	switch {
	case errors.Is(err, backend.ErrNotFound):
		return s.notFound(k, name)
	case err != nil:
		return err
	}
	return s.object(k, obj)
}

// member finds a cluster of the fleet.
func (s *session) member(ctx context.Context, name string) (placement.Cluster, error) {
	for c, err := range s.inventory.Clusters(ctx) {
		if err != nil || c.Name == name {
			return c, err
		}
	}
	return placement.Cluster{}, s.notFound(managedClusters, name)
}

func (s *session) notFound(k kind, name string) error {
	return s.fail("Error from server (NotFound): %s %q not found", k.resource(), name)
}

// collect reads what a source has, by namespace and name.
func collect(ctx context.Context, source snapshot.Source, q snapshot.Query) (objs []*unstructured.Unstructured, err error) {
	for obj, err := range source.Objects(ctx, q) {
		if err != nil {
			return nil, err
		}
		objs = append(objs, obj)
	}
	slices.SortFunc(objs, func(a, b *unstructured.Unstructured) int {
		return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
	})
	return objs, nil
}
