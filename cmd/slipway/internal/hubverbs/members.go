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

// errUnusable reports that the kubeconfig of a member cannot be used yet.
var errUnusable = errors.New("the kubeconfig cannot be used")

// eachMember calls do once for each member with a kubeconfig in dir, including members that are
// added later, until ctx ends or there is an error. After errUnusable it calls do again.
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
			switch err := do(ctx, name); {
			case errors.Is(err, errUnusable):
				continue
			case err != nil:
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

// usable returns a function that calls do for a member if its kubeconfig can be used. It logs each
// new problem of a file once.
func (h *options) usable(kubeconfigs member.ConfigFunc, do func(ctx context.Context, name string) error) func(ctx context.Context, name string) error {
	logged := map[string]string{}
	return func(ctx context.Context, name string) error {
		if _, err := kubeconfigs(ctx, placement.Cluster{Name: name}); err != nil {
			if logged[name] != err.Error() {
				logged[name] = err.Error()
				h.log.Warn("a member is not registered, because its kubeconfig cannot be used; the file is read again if it changes",
					"file", filepath.Join(h.members, name+".kubeconfig"), "error", strings.TrimSuffix(err.Error(), ": "+backend.ErrPermanent.Error()))
			}
			return errUnusable
		}
		return do(ctx, name)
	}
}

// memberClusters returns the resource of MemberClusters.
func memberClusters() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "cluster.kubernetes-fleet.io", Version: "v1beta1", Resource: "memberclusters"}
}

// registrar returns a function that creates a MemberCluster with a name, unless it exists. If a
// user deletes a member, it is not recreated while the hub runs.
func (h *options) registrar(config *rest.Config) (func(ctx context.Context, name string) error, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	resource := client.Resource(memberClusters())
	return func(ctx context.Context, name string) error {
		object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
		object.SetGroupVersionKind(memberClusters().GroupVersion().WithKind("MemberCluster"))
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
