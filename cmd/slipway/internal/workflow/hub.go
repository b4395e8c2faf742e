package workflow

import (
	"context"
	"errors"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/inventory"
	"github.com/slipway-dev/slipway/backend/kube/store"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/oam/delivery"
	"github.com/slipway-dev/slipway/placement"
)

// onHub calls do with the workflows of a hub. They are in its records, which takes the rights to them. The engine of this
// process only records what is asked for: it is not run, and reaches no member.
func (o *options) onHub(ctx context.Context, do func(context.Context, workflows) error) (err error) {
	if !o.kube.IsSet() {
		return cli.Usagef("--store is not set: it names the file of the store; --server names a server instead, and --kubeconfig or --context a hub")
	}
	config, err := o.kube.Config()
	if err != nil {
		return err
	}
	records, err := store.New(config, store.Options{Namespace: o.kube.HubNamespace})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, records.Close()) }()
	members, err := inventory.NewMemberClusters(config, inventory.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, members.Close()) }()
	dialer := backend.DialerFunc(func(_ context.Context, c placement.Cluster) (backend.Conn, error) {
		return nil, fmt.Errorf("member %s is reached by the hub alone: %w", c.Name, backend.ErrPermanent)
	})
	engine, err := fleet.New(fleet.Config{Name: "slipway", Store: records, Inventory: members, Dialer: dialer})
	if err != nil {
		return err
	}
	return do(ctx, hubWorkflows{&delivery.Applications{Engine: engine, Store: records}, config})
}

// hubWorkflows are the workflows of a hub.
type hubWorkflows struct {
	*delivery.Applications
	config *rest.Config
}

// Do carries out a request by the identity that the API server authenticates.
func (h hubWorkflows) Do(ctx context.Context, r delivery.Request) (string, error) {
	client, err := kubernetes.NewForConfig(h.config)
	if err != nil {
		return "", err
	}
	who, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("who asks is not known: %w", err)
	}
	r.By = approval.Identity{Name: who.Status.UserInfo.Username, Groups: who.Status.UserInfo.Groups}
	return h.Applications.Do(ctx, r)
}
