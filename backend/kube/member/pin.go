package member

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// errAnew is transient.
var errAnew = errors.New("the connection to the member was lost before anything was sent, and a new one is not trusted before it leads to the same cluster")

// recognitions is the maximum number of times that one write verifies the cluster.
const recognitions = 3

// write makes a request that changes something. To a pinned cluster it uses a network connection
// that existed when the cluster was recognized, because a new one may lead elsewhere.
func (c *conn) write(ctx context.Context, r request) (answer []byte, err error) {
	l, leave := c.client.transports.enter()
	defer leave()
	if c.pinned == "" {
		return c.client.over(ctx, l, r)
	}
	for range recognitions {
		if err := c.recognizeOver(ctx, l); err != nil {
			return nil, err
		}
		if answer, err = c.client.over(context.WithValue(ctx, undialled{}, true), l, r); !errors.Is(err, errAnew) {
			return answer, err
		}
		l.recognized.Store(0)
	}
	return nil, fmt.Errorf("%w, %d times", err, recognitions)
}

// undialled is the context key of requests that must not open a network connection.
type undialled struct{}

// dialable returns an error if a request must not open a network connection.
func dialable(ctx context.Context) error {
	if ctx.Value(undialled{}) != nil {
		return errAnew
	}
	return nil
}

// PinnedUID returns the required UID of a cluster's namespace kube-system, taken from the
// cluster's UID in the inventory; empty if there is none. A UID without a slash is itself the UID
// of the namespace. The annotation slipway.dev/kube-system-uid pins a cluster.
func PinnedUID(clusterUID string) string {
	if i := strings.LastIndexByte(clusterUID, '/'); i >= 0 {
		return clusterUID[i+1:]
	}
	return clusterUID
}
