package hubverbs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/placement"
)

// manager is the field manager of what is written on the hub and on members.
const manager = "slipway-hub"

// pollEvery is how often the directory is read, and how soon a member is tried again.
const pollEvery = 5 * time.Second

// eachMember does something once with each member of which dir has a kubeconfig, with those that come
// too, until ctx ends or there is an error.
func eachMember(ctx context.Context, dir string, do func(ctx context.Context, name string) error) error {
	done := map[string]bool{}
	err := wait.PollUntilContextCancel(ctx, pollEvery, true, func(ctx context.Context) (bool, error) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return false, fmt.Errorf("--members: %w", err)
		}
		for _, e := range entries {
			name, ok := strings.CutSuffix(e.Name(), ".kubeconfig")
			if !ok || done[name] {
				continue
			}
			if err := do(ctx, name); err != nil {
				return false, fmt.Errorf("--members: %s: %w", filepath.Join(dir, e.Name()), err)
			}
			done[name] = true
		}
		return false, nil
	})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the end of the context is no failure
	}
	return err
}

// registrar returns what makes a MemberCluster of a name, unless there is one. A member that a user deletes is not
// made again while the hub runs.
func (h *options) registrar(config *rest.Config) (func(ctx context.Context, name string) error, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	members := schema.GroupVersion{Group: "cluster.kubernetes-fleet.io", Version: "v1beta1"}
	resource := client.Resource(members.WithResource("memberclusters"))
	return func(ctx context.Context, name string) error {
		object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
		object.SetGroupVersionKind(members.WithKind("MemberCluster"))
		object.SetName(name)
		_, err := resource.Create(ctx, object, metav1.CreateOptions{FieldManager: manager})
		switch {
		case apierrors.IsAlreadyExists(err):
			return nil
		case err != nil:
			return fmt.Errorf("registering MemberCluster %s: %w", name, err)
		}
		return h.Said("registered member %s: label it, as in kubectl label membercluster %s environment=staging", name, name)
	}, nil
}

// fenceMembers installs the policies of member.FenceManifests on the members that are there, and that come, until ctx
// ends. One that cannot be reached, or does not allow it, keeps no other one waiting.
func (h *options) fenceMembers(ctx context.Context, dialer backend.Dialer) error {
	var group sync.WaitGroup
	defer group.Wait()
	return eachMember(ctx, h.members, func(ctx context.Context, name string) error {
		group.Go(func() { h.fenceMember(ctx, dialer, name) })
		return nil
	})
}

// fenceMember installs the policies on a member. What keeps it from that is logged once, and it is tried again.
func (h *options) fenceMember(ctx context.Context, dialer backend.Dialer, name string) {
	logged := ""
	err := wait.PollUntilContextCancel(ctx, pollEvery, true, func(ctx context.Context) (bool, error) {
		conn, err := dialer.Dial(ctx, placement.Cluster{Name: name})
		if err == nil {
			err = errors.Join(member.InstallFence(ctx, conn, manager), conn.Close())
		}
		if err != nil && ctx.Err() == nil && err.Error() != logged {
			logged = err.Error()
			h.log.Warn("a member has no fence yet, which is tried again", "member", name, "error", err)
		}
		return err == nil, nil
	})
	if err == nil {
		_ = h.Said("fenced member %s", name)
	}
}
