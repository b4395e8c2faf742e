package hubverbs

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/placement"
)

// With --fence members get the policies of the fence, and new objects of the hub carry the mark
// that these policies check.
func TestMembersAreFenced(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t, "member1")
	w.start("--lease", "3s", "--fence")
	w.play("testdata/fence", "script.txt")
}

// An unreachable member is reported once, delays no other member, and gets the fence when it is
// reachable. A member that joins later gets it, too.
func TestAMemberThatCannotBeReachedIsFencedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		members, begun, dir := memory.NewFleet(), time.Now(), t.TempDir()
		dial := func(ctx context.Context, c placement.Cluster) (backend.Conn, error) {
			if c.Name == "away" && time.Since(begun) < time.Minute {
				return nil, errors.New("no route")
			}
			return members.Dial(ctx, c)
		}
		for _, name := range []string{"away", "there", "later"} {
			members.Add(placement.Cluster{Name: name})
		}
		write(t, filepath.Join(dir, "away.kubeconfig"), nil)
		write(t, filepath.Join(dir, "there.kubeconfig"), nil)
		var out, log output
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		h := &options{Options: &cli.Options{IOStreams: genericiooptions.IOStreams{Out: &out, ErrOut: &log}}, members: dir, log: slog.New(slog.NewTextHandler(&log, nil))}
		go func() { ended <- h.fenceMembers(ctx, backend.DialerFunc(dial)) }()
		time.Sleep(time.Second)
		write(t, filepath.Join(dir, "later.kubeconfig"), nil)
		time.Sleep(2 * time.Minute)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if got, want := out.String(), "fenced member there\nfenced member later\nfenced member away\n"; got != want {
			t.Errorf("it printed\n%s, want\n%s", got, want)
		}
		if said := log.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, "member=away error=\"no route\"") {
			t.Errorf("it told\n%s", said)
		}
		for _, name := range []string{"away", "there", "later"} {
			if n := len(members.Cluster(name).List("")); n < 6 {
				t.Errorf("%s has %d objects: three policies and their bindings should be there", name, n)
			}
		}
	})
}
