package member_test

import (
	"testing"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/backendtest"
	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// connTo returns a connection to a server as its administrator.
func connTo(t *testing.T, s *kubeenv.Server) backend.Conn {
	t.Helper()
	c, err := member.NewConn(s.Config(), member.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestConnKeepsTheContract(t *testing.T) {
	s := clusters.Server(t, "one")
	backendtest.TestConn(t, func(t *testing.T) backend.Conn { return connTo(t, s) })
}
