package backendtest

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
)

// dryRun compares the results of a dry run and of the apply. It passes for a member that does not
// support dry runs.
func dryRun(ctx context.Context, s subject) error {
	if _, err := s.applied(ctx, one, "a", "1"); err != nil {
		return err
	}
	before, err := s.conn.Get(ctx, s.id)
	if err != nil {
		return err
	}
	obj := s.configMap("b", "2")
	told, err := backend.DryRun(ctx, s.conn, obj, backend.ApplyOptions{Manager: one})
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return err
	}
	after, err := s.conn.Get(ctx, s.id)
	if err != nil {
		return err
	}
	if before.GetResourceVersion() != after.GetResourceVersion() {
		return errors.New("a dry run writes the object")
	}
	real, err := s.conn.Apply(ctx, obj, backend.ApplyOptions{Manager: one})
	if err != nil {
		return err
	}
	if a, b := dataOf(told), dataOf(real); a != b {
		return fmt.Errorf("a dry run says %s, and %s comes of it", a, b)
	}
	return staleDryRun(ctx, s, before)
}

// staleDryRun requires that preconditions also hold for dry runs.
func staleDryRun(ctx context.Context, s subject, before *unstructured.Unstructured) error {
	o := backend.ApplyOptions{Manager: one, Precondition: precondition(before)}
	if _, err := backend.DryRun(ctx, s.conn, s.configMap("a", "1"), o); !errors.Is(err, backend.ErrConflict) {
		return fmt.Errorf("a dry run whose precondition does not hold returned %v, want ErrConflict", err)
	}
	return nil
}

func dataOf(obj *unstructured.Unstructured) string {
	return fmt.Sprint(obj.Object["data"])
}
