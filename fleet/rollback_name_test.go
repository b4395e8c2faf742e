package fleet_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/slipway-dev/slipway/fleet"
)

// The name of a rollback run is the name of the other run with a suffix, cut to a valid length.
func TestRollbackName(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct {
		run  string
		n    int
		want string
	}{
		{"r1", 1, "r1-rollback"},
		{"r1", 2, "r1-rollback-2"},
		{"r1", 12, "r1-rollback-12"},
		{"n.web.r1", 1, "n.web.r1-rollback"},
		{x(54), 1, x(54) + "-rollback"},
		{x(54), 2, x(43) + "-80522952-rollback-2"},
		{x(55), 1, x(45) + "-c77e4072-rollback"},
		{x(44) + "." + x(18), 1, x(44) + "-bb5f9500-rollback"},
		{x(43) + ".-" + x(18), 1, x(43) + "-fbabdac3-rollback"},
	} {
		got := fleet.RollbackName(c.run, c.n)
		if got != c.want || len(got) > 63 || len(validation.IsDNS1123Subdomain(got)) > 0 {
			t.Errorf("RollbackName(%q, %d) = %q, want %q", c.run, c.n, got, c.want)
		}
	}
	if a, b := fleet.RollbackName(x(60)+"a", 1), fleet.RollbackName(x(60)+"b", 1); a == b {
		t.Errorf("two runs have the name %s", a)
	}
}

// rollingNamed is rolling with a host that names the rollback runs.
func rollingNamed(t *testing.T, names func(run, title string, n int) string) (*engineEnv, *fleet.Engine) {
	t.Helper()
	w := fourStages(t)
	e := w.newEngine(fleet.Config{Store: w.store, Name: "one", RollbackName: names})
	must(0, e.PutPlacement(t.Context(), tutorialPlacement()))(t)
	t.Cleanup(running(t, e))
	return w, e
}

// The host names the rollback run from the title of the run, for rollbacks on command and automatic
// ones. It is asked for the next name if a name is taken. The rollback run has the title too.
func TestTheHostNamesARollback(t *testing.T) {
	for what, command := range map[string]bool{"on command": true, "by itself": false} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, e := rollingNamed(t, func(run, title string, n int) string { return fmt.Sprintf("%s.back-from-%s.%d", run, title, n) })
				ranTo(t, e, inAll("r0"), "Completed")
				w.holds("v1")
				held := inAll("r1.back-from-friday.1") // another client has the name
				held.Hold = true
				spec := inAll("r1")
				spec.Title = "friday"
				if command {
					ranTo(t, e, spec, "Completed")
					create(t, e, held)
					if name := must(e.Run("r1").Rollback(t.Context(), fleet.RollbackOptions{}))(t); name != "r1.back-from-friday.2" {
						t.Errorf("it is to be called %s", name)
					}
				} else {
					w.failsAt("s4a", "v1")
					w.fleet.Hang("s1a", true) // until the name is taken
					create(t, e, spec)
					create(t, e, held)
					w.fleet.Hang("s1a", false)
				}
				back := endOfRollback(t, e, "r1")
				if back.Run.Name != "r1.back-from-friday.2" || back.Title != "friday" {
					t.Errorf("it is called %s, with the title %q", back.Run.Name, back.Title)
				}
				wantValues(t, w, everywhere("v0"))
			})
		})
	}
}

// A host that returns an invalid name or the same name again, or that panics, does no harm: the
// default name is used.
func TestInvalidRollbackNamesOfTheHost(t *testing.T) {
	for what, c := range map[string]struct {
		names func(string, string, int) string
		want  string
	}{
		"empty":    {func(string, string, int) string { return "" }, "r1-rollback"},
		"no name":  {func(string, string, int) string { return "No Name" }, "r1-rollback"},
		"too long": {func(string, string, int) string { return strings.Repeat("x", 64) }, "r1-rollback"},
		"panics":   {func(string, string, int) string { panic("no name") }, "r1-rollback"},
		"the same": {func(string, string, int) string { return "r0" }, "r1-rollback-2"},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, e := rollingNamed(t, c.names)
				ranTo(t, e, inAll("r0"), "Completed")
				w.holds("v1")
				ranTo(t, e, inAll("r1"), "Completed")
				if name := must(e.Run("r1").Rollback(t.Context(), fleet.RollbackOptions{}))(t); name != c.want {
					t.Errorf("it is called %s, want %s", name, c.want)
				}
			})
		})
	}
}

// A title that is too long is refused with its field.
func TestALongTitleIsRefused(t *testing.T) {
	w, e := declared(t, nil)
	w.capture(e, "v0")
	spec := specOf("r", 0)
	spec.Title = strings.Repeat("x", 254)
	refused(t, w.store, "a title", func() error { return second1(e.CreateRun(t.Context(), spec)) }, "run r: ", "title: Too long")
}
