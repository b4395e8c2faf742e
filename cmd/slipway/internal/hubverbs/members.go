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

// manager is the field manager for objects on the hub and on members.
const manager = "slipway-hub"

// pollEvery is the interval of readings of the directory, and of retries for a member.
const pollEvery = 5 * time.Second

// eachMember calls do once for each member with a kubeconfig in dir, including members that are
// added later, until ctx ends or there is an error.
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
		return nil //nolint:nilerr // the end of the context ends the watch, which is no failure
	}
	return err
}

// registrar returns a function that creates a MemberCluster with a name, unless it exists. If a
// user deletes a member, it is not recreated while the hub runs.
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

// fenceMembers installs the policies of member.FenceManifests on all members, including members
// that are added later, until ctx ends. A member that is unreachable or denies it does not delay
// the others.
func (h *options) fenceMembers(ctx context.Context, dialer backend.Dialer) error {
	var group sync.WaitGroup
	defer group.Wait()
	return eachMember(ctx, h.members, func(ctx context.Context, name string) error {
		group.Go(func() { h.fenceMember(ctx, dialer, name) })
		return nil
	})
}

// fenceMember installs the policies on a member. It logs each new error once, and retries.
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
