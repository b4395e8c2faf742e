package hubverbs

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Without --secrets a namespace is placed without its Secrets, the program reports this, and its
// installed account may not read Secrets. With --secrets they are placed, and the account may
// read them. --aggregate permits the editors of a namespace to place it.
func TestSecretsArePlacedWhereAskedFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		install, serve []string
		secrets        bool
	}{{nil, nil, false}, {[]string{"--secrets", "--aggregate"}, []string{"--secrets"}, true}} {
		t.Run(strings.Join(c.install, " "), func(t *testing.T) {
			w := newHubEnv(t, "member1")
			w.install(c.install...)
			w.serve(append([]string{"--lease", "3s"}, c.serve...)...)
			for _, args := range [][]string{
				{"create", "namespace", "web"},
				{"create", "configmap", "config", "-n", "web", "--from-literal=key=v"},
				{"create", "secret", "generic", "login", "-n", "web", "--from-literal=password=hunter2"},
				{"apply", "-f", "testdata/secrets/placement.yaml"},
				{"create", "rolebinding", "ed", "-n", "web", "--clusterrole=edit", "--user=ed"},
			} {
				if _, err := w.run("hub", ".", args...); err != nil {
					t.Fatal(err)
				}
			}
			w.eventually("what is always placed", func() error { _, err := w.run("member1", ".", "get", "configmap", "config", "-n", "web"); return err })
			w.eventually("the Secret", func() error {
				_, err := w.run("member1", ".", "get", "secret", "login", "-n", "web")
				if (err == nil) != c.secrets {
					return fmt.Errorf("with %v: %w", c.install, errors.Join(err, errors.New("want it to be otherwise")))
				}
				return nil
			})
			w.may("system:serviceaccount:slipway-system:slipway-hub", "list", "secrets", c.secrets)
			w.may("ed", "create", "resourceplacements.placement.kubernetes-fleet.io", c.secrets)
		})
	}
}

// may waits until a user may, or may not, do something in the namespace web.
func (w *hubEnv) may(user, verb, resource string, want bool) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%s to be allowed to %s %s: %t", user, verb, resource, want), func() error {
		out, _ := w.run("hub", ".", "auth", "can-i", verb, resource, "-n", "web", "--as", user)
		if got := strings.TrimSpace(out); (got == "yes") != want {
			return fmt.Errorf("it says %s", got)
		}
		return nil
	})
}
