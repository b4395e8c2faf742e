package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/placement"
)

// fencer installs the policies of member.FenceManifests on members.
type fencer struct {
	dialer backend.Dialer
	dir    string
	out    io.Writer
	log    *slog.Logger
}

// run fences the members that are there, and that come, until ctx ends. One that cannot be reached, or
// does not allow it, keeps no other one waiting.
func (f *fencer) run(ctx context.Context) error {
	policies, err := member.FenceManifests()
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	defer group.Wait()
	return eachMember(ctx, f.dir, func(ctx context.Context, name string) error {
		group.Go(func() { f.fence(ctx, name, policies) })
		return nil
	})
}

// fence installs the policies on a member. What keeps it from that is told once, and it is tried again.
func (f *fencer) fence(ctx context.Context, name string, policies []*unstructured.Unstructured) {
	told := ""
	err := wait.PollUntilContextCancel(ctx, pollEvery, true, func(ctx context.Context) (bool, error) {
		err := f.install(ctx, name, policies)
		if err != nil && ctx.Err() == nil && err.Error() != told {
			told = err.Error()
			f.log.Warn("a member has no fence yet, which is tried again", "member", name, "error", err)
		}
		return err == nil, nil
	})
	if err == nil {
		fmt.Fprintf(f.out, "fenced member %s\n", name)
	}
}

func (f *fencer) install(ctx context.Context, name string, policies []*unstructured.Unstructured) (err error) {
	conn, err := f.dialer.Dial(ctx, placement.Cluster{Name: name})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	for _, p := range policies {
		if _, err := conn.Apply(ctx, p, backend.ApplyOptions{Manager: "slipway-hub"}); err != nil {
			return fmt.Errorf("%s %s: %w", p.GetKind(), p.GetName(), err)
		}
	}
	return nil
}
