package watch

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

// forgetful is a collection whose first list and first watch are never answered.
type forgetful struct {
	lists, watches int
	changes        *watch.FakeWatcher
}

func (f *forgetful) List(ctx context.Context, _ metav1.ListOptions) ([]metav1.Object, metav1.ListMeta, error) {
	if f.lists++; f.lists == 1 {
		<-ctx.Done()
		return nil, metav1.ListMeta{}, ctx.Err()
	}
	return nil, metav1.ListMeta{ResourceVersion: "7"}, nil
}

func (f *forgetful) Watch(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
	if f.watches++; f.watches == 1 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return f.changes, nil
}

// TestAnAnswerThatIsLostIsNotWaitedForForEver is about a proxy that keeps the
// connection and has lost the request.
func TestAnAnswerThatIsLostIsNotWaitedForForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		seen := make(chan metav1.Object)
		f := &forgetful{changes: watch.NewFake()}
		r := Reflector{
			From: f, Begin: func([]metav1.Object) {}, Event: func(_ bool, obj metav1.Object) { seen <- obj },
			Failed: func(err error) {
				if errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			},
		}
		go r.Run(ctx)
		obj := &unstructured.Unstructured{Object: map[string]any{}}
		obj.SetResourceVersion("8")
		go f.changes.Add(obj)
		<-seen
		if f.lists < 2 || f.watches != 2 {
			t.Errorf("%d lists and %d watches", f.lists, f.watches)
		}
	})
}
