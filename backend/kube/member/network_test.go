package member_test

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/placement"
)

// TestAnErrorOfTheNetworkBeginsWithItsReason: the error of an unreachable cluster begins with the
// reason and then names the address and the object, because a terminal of 80 columns shows only
// the beginning.
func TestAnErrorOfTheNetworkBeginsWithItsReason(t *testing.T) {
	d := member.NewDialer(func(context.Context, placement.Cluster) (*rest.Config, error) {
		return &rest.Config{Host: "https://127.0.0.1:1"}, nil
	}, member.Options{})
	c, err := d.Dial(t.Context(), placement.Cluster{Name: "eu-1"})
	if err != nil {
		t.Fatal(err)
	}
	web := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "web", "namespace": "shop"},
	}}
	_, err = c.Apply(t.Context(), web, backend.ApplyOptions{Manager: "test"})
	if want := "connection refused (127.0.0.1:1): apply ConfigMap.v1 shop/web"; err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
}
