package fleet_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
)

// withVersions returns the tutorial's placement with overrides of a version: the canaries have
// their own value, every cluster has its name, and staging has no Secret.
func withVersions(version string) fleet.Placement {
	named := replaceFor("canary", "")
	named.Name, named.Namespace, named.Priority = "named", "", -1
	named.Selectors = []placement.ObjectSelector{{Version: "v1", Kind: "Namespace", Name: "test-namespace"}}
	named.Rules = []placement.Rule{{
		ClusterSelector: &placement.ClusterSelector{},
		Patches:         []placement.Patch{{Op: placement.OpAdd, Path: "/metadata/labels", Value: fmt.Appendf(nil, `{"on":"${MEMBER-CLUSTER-NAME}-%s"}`, version)}},
	}}
	drop := replaceFor("staging", "")
	drop.Name, drop.Rules[0].Type, drop.Rules[0].Patches = "drop", placement.Delete, nil
	drop.Selectors = []placement.ObjectSelector{{Version: "v1", Kind: "Secret", Name: "s"}}
	p := tutorialPlacement()
	p.Overrides = []placement.Override{replaceFor("canary", version), named, drop}
	return p
}

// overrideStory brings a snapshot with overrides, then a snapshot that differs only in the
// overrides, and then goes back to the first.
var overrideStory = crashScenario{
	placement: ep,
	runs:      []string{"first", "second", "back"},
	build: func(t *testing.T) *engineEnv {
		w := newEngineEnv(t)
		w.puts(secretOf("s", "eA=="))
		return w
	},
	tell: func(h *host) {
		run := func(name string, index int) {
			h.create(specOf(name, index))
			h.feed.end(name)
		}
		h.declare(withVersions("one"))
		h.capture(ep, 0)
		run("first", 0)
		h.declare(withVersions("two"))
		h.capture(ep, 1)
		run("second", 1)
		run("back", 0)
	},
	touches: func(change) bool { return false },
	sparse:  true,
}

// The rendered overrides of each cluster are stored before a run is, and a rollback restores the
// overrides of its index, whichever write fails.
func TestCrashAtEveryWriteOfOverrides(t *testing.T) {
	t.Parallel()
	want := overrideStory.undisturbed(t)
	t.Logf("%d writes", want.writes)
	for member, version := range map[string]string{"member1": "one", "member2": "value1", "member3": "one"} {
		all := fmt.Sprint(want.members[member])
		for _, part := range []string{member + "-one", `"key":"` + version + `"`} {
			if n := strings.Count(all, part); n == 0 {
				t.Errorf("%s has no %s: %s", member, part, all)
			}
		}
		if secrets := strings.Count(all, `"kind":"Secret"`); (secrets == 0) != (member == "member2") {
			t.Errorf("%s has %d Secrets", member, secrets)
		}
	}
	overrideStory.checkAll(t, want, upTo(want.writes))
}
