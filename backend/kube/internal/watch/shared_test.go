package watch

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// sharedOf returns shared watches on a server that sends changes.
func sharedOf(changes watch.Interface) (*Shared[string, NoIndex], *server) {
	s := &server{list: lists, watch: func(context.Context, int) (watch.Interface, error) { return changes, nil }}
	return &Shared[string, NoIndex]{Open: func(string) (Client, metav1.ListOptions, NoIndex) {
		return s.client(), metav1.ListOptions{}, NoIndex{}
	}, Patience: Patience}, s
}

func TestSharedWatchEndsAfterTheLastSubscriber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		changes := watch.NewFake()
		shared, s := sharedOf(changes)
		told := make(chan string, 10)
		subscribe := func() *Subscription[string, NoIndex] {
			sub := shared.Subscribe(func(_ string, obj metav1.Object) {
				if obj != nil {
					told <- obj.GetResourceVersion()
				}
			})
			sub.Join("a")
			if _, err := sub.Begun(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			return sub
		}
		first, second := subscribe(), subscribe()
		synctest.Wait()
		changes.Add(at("8"))
		if a, b := <-told, <-told; a != "8" || b != "8" || s.lists != 1 || s.watches != 1 {
			t.Errorf("%s, %s; %d lists and %d watches", a, b, s.lists, s.watches)
		}
		first.End()
		time.Sleep(time.Minute)
		if changes.IsStopped() {
			t.Error("the watch stopped although there is a subscriber")
		}
		second.End()
		time.Sleep(linger / 2)
		second = subscribe()
		time.Sleep(time.Minute)
		if changes.IsStopped() || s.lists != 1 {
			t.Error("a watch with a new subscriber stopped")
		}
		second.End()
		time.Sleep(2 * linger)
		if !changes.IsStopped() {
			t.Error("a watch without subscribers goes on")
		}
	})
}

func TestWatchesEndWithTheErrorOfClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := errors.New("closed")
		shared, _ := sharedOf(watch.NewFake())
		woken := 0
		sub := shared.Subscribe(func(string, metav1.Object) { woken++ })
		sub.Join("a")
		if _, err := sub.Begun(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		shared.Close(closed)
		if err := sub.Failure("a"); !errors.Is(err, closed) || woken != 2 {
			t.Errorf("the watch ended with %v, woken %d times", err, woken)
		}
		late := shared.Subscribe(func(string, metav1.Object) {})
		late.Join("a")
		if _, err := late.Begun(t.Context(), "a"); !errors.Is(err, closed) {
			t.Errorf("a watch after Close: %v", err)
		}
	})
}
