package member

import (
	"context"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// TestAFeedThatNobodyNeedsStops begins one whose API server does not exist: that it is there at all is
// what counts.
func TestAFeedThatNobodyNeedsStops(t *testing.T) {
	c, err := newConn(&rest.Config{Host: "https://127.0.0.1:1"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	c.watches.linger = time.Millisecond
	ctx, stop := context.WithCancel(context.Background())
	f := &feed{scope: scope{name: "a"}, stop: stop, subs: map[*subscription]struct{}{}}
	c.watches.feeds[f.scope] = f
	var first, second subscription
	for _, s := range []*subscription{&first, &second} {
		if got, err := c.watches.join(f.scope, s); got != f || err != nil {
			t.Fatal(got, err)
		}
	}
	c.watches.leave(f, &first)
	select {
	case <-ctx.Done():
		t.Fatal("the feed stopped although somebody needs it")
	case <-time.After(20 * time.Millisecond):
	}
	c.watches.leave(f, &second)
	<-ctx.Done()
}
