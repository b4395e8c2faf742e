package member

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// errAnew is transient.
var errAnew = errors.New("the connection to the member was lost before anything was sent, and a new one is not trusted before it leads to the same cluster")

// recognitions is how often a cluster is recognized for one write.
const recognitions = 3

// write makes a request that changes something. To a cluster that is pinned it goes
// over a connection that was there when the cluster was recognized: one that it
// would have to make itself may lead elsewhere.
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

// undialled is the key of contexts whose requests make no connection.
type undialled struct{}

// dialable returns an error where a request is to make no connection.
func dialable(ctx context.Context) error {
	if ctx.Value(undialled{}) != nil {
		return errAnew
	}
	return nil
}

// PinnedUID returns the UID that the namespace kube-system of a cluster must
// have, as far as the cluster's UID in the inventory says so, or nothing. A UID
// without a slash is that of the namespace itself. See [KubeSystemUID].
func PinnedUID(clusterUID string) string {
	if i := strings.LastIndexByte(clusterUID, '/'); i >= 0 {
		return clusterUID[i+1:]
	}
	return clusterUID
}
