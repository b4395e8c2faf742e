package upgrade_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/trigger"
	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/fleet/upgrade/embedded"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// released are the versions of a provider whose newest minor version is 1.31.
var released = []upgrade.Release{
	{Version: "1.30.1"},
	{Version: "1.31.0"},
	{Version: "1.30.2"},
	{Version: "1.29.9"},
	{Version: "1.29.10"},
	{Version: "1.32.0", Preview: true},
	{Version: "1.27.20", LongTermSupport: true},
	{Version: "1.28.3"},
}

func TestAChannelIsAVersion(t *testing.T) {
	const target = upgrade.TargetKubernetesVersion
	for _, c := range []struct {
		name    string
		profile upgrade.Profile
		has     string // versions of control planes
		want    string // a version or an error
	}{
		{"rapid", upgrade.Profile{Channel: upgrade.Rapid}, "1.30.2", "1.31.0"},
		{"stable", upgrade.Profile{Channel: upgrade.Stable}, "1.30.0", "1.30.2"},
		{"patches are numbers", upgrade.Profile{Channel: target, KubernetesVersion: "1.29"}, "1.29.1", "1.29.10"},
		{"the oldest cluster decides", upgrade.Profile{Channel: upgrade.Rapid}, "1.29.10 1.28.3", "1.29.10"},
		{"a fleet without clusters", upgrade.Profile{Channel: upgrade.Stable}, "", "1.30.2"},
		{"a minor version that is not released", upgrade.Profile{Channel: target, KubernetesVersion: "1.32"}, "1.31.0", "1.32 is not released: the newest minor version is 1.31"},
		{"one that is not supported any more", upgrade.Profile{Channel: target, KubernetesVersion: "1.27"}, "1.27.1", "1.27 is not supported any more, the newest minor version is 1.31: choose a newer one, or set longTermSupport"},
		{"long-term support", upgrade.Profile{Channel: target, KubernetesVersion: "1.27", LongTermSupport: true}, "1.27.1", "1.27.20"},
		{"a step that the catalog does not have", upgrade.Profile{Channel: upgrade.Rapid}, "1.25.1", "the catalog has no release of 1.26"},
		{"a version that is none", upgrade.Profile{Channel: upgrade.Rapid}, "new", `cluster a: its version "new" cannot be compared`},
	} {
		t.Run(c.name, func(t *testing.T) {
			clusters := map[string]upgrade.Cluster{}
			for i, v := range strings.Fields(c.has) {
				clusters[string(rune('a'+i))] = upgrade.Cluster{ControlPlane: v}
			}
			got, err := c.profile.Target(released, nil, clusters)
			if err != nil {
				if !strings.HasSuffix(err.Error(), c.want) {
					t.Errorf("%v, want %s", err, c.want)
				}
				return
			}
			if want := (upgrade.Target{Type: upgrade.Full, KubernetesVersion: c.want}); !cmp.Equal(got, want) {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}

// TestStableIsThePatchBeforeTheNewestMinorVersion uses the example of Azure's description of its
// channel Stable.
func TestStableIsThePatchBeforeTheNewestMinorVersion(t *testing.T) {
	all := []upgrade.Release{{Version: "1.17.9"}, {Version: "1.18.4"}, {Version: "1.18.6"}, {Version: "1.19.1"}}
	got, err := upgrade.Profile{Channel: upgrade.Stable}.Target(all, nil, map[string]upgrade.Cluster{"a": {ControlPlane: "1.17.7"}})
	if err != nil || got.KubernetesVersion != "1.18.6" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAChannelOfImagesLeavesVersions(t *testing.T) {
	got, err := upgrade.Profile{Channel: upgrade.NodeImage, NodeImages: upgrade.Consistent}.Target(nil, nil, nil)
	if want := (upgrade.Target{Type: upgrade.NodeImageOnly, NodeImages: upgrade.NodeImages{Selection: upgrade.Consistent}}); err != nil || !cmp.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = upgrade.Profile{Channel: upgrade.SecurityPatch}.Target(nil, []string{"p1"}, nil)
	if want := (upgrade.Target{Type: upgrade.NodeImageOnly, NodeImages: upgrade.NodeImages{Selection: upgrade.Custom, Versions: []string{"p1"}}}); err != nil || !cmp.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err = (upgrade.Profile{Channel: upgrade.SecurityPatch}).Target(nil, nil, nil); err == nil || !strings.Contains(err.Error(), "no images with security patches") {
		t.Error(err)
	}
}

func TestInvalidProfileReportsAllProblems(t *testing.T) {
	for _, c := range []struct {
		profile upgrade.Profile
		want    []string
	}{
		{upgrade.Profile{Channel: "Nightly"}, []string{`channel: Unsupported value: "Nightly"`}},
		{upgrade.Profile{Channel: upgrade.Stable, KubernetesVersion: "1.30", LongTermSupport: true, NodeImages: "Oldest"}, []string{
			"targetKubernetesVersion: Forbidden", "longTermSupport: Forbidden", `nodeImageSelection: Unsupported value: "Oldest"`,
		}},
		{upgrade.Profile{Channel: upgrade.TargetKubernetesVersion}, []string{"targetKubernetesVersion: Required"}},
		{upgrade.Profile{Channel: upgrade.TargetKubernetesVersion, KubernetesVersion: "1.30.2"}, []string{"targetKubernetesVersion: Invalid"}},
		{upgrade.Profile{Channel: upgrade.SecurityPatch, NodeImages: upgrade.Latest}, []string{"nodeImageSelection: Forbidden"}},
	} {
		_, err := c.profile.Target(released, nil, nil)
		for _, part := range c.want {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%+v: %v, want %s", c.profile, err, part)
			}
		}
	}
}

// catalog is a catalog whose content a test changes.
type catalog struct {
	releases []upgrade.Release
	patches  []string
}

func (c *catalog) Releases(context.Context) ([]upgrade.Release, error) { return c.releases, nil }
func (c *catalog) SecurityPatches(context.Context) ([]string, error)   { return c.patches, nil }

// followed is a fleet that follows a profile.
type followed struct {
	*env
	catalog *catalog
	auto    *upgrade.AutoUpgrade
	trigger trigger.Trigger
}

func follow(t *testing.T, w embedded.State, p upgrade.Profile, test func(*testing.T, *followed)) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t, w, upgrade.Target{Type: upgrade.NodeImageOnly})
		f := &followed{env: r, catalog: &catalog{releases: released}}
		f.auto = &upgrade.AutoUpgrade{Name: "prod", Profile: p, Catalog: f.catalog, Provider: r.p, Inventory: r.members, Strategy: oneByOne(0)}
		f.trigger = trigger.Trigger{Name: "auto", Placement: "prod", Strategy: oneByOne(0), Revision: f.auto.Revision}
		var err error
		f.e, err = fleet.New(fleet.Config{Name: "auto", Store: r.store, Inventory: r.members, Source: f.auto, Updater: upgrade.NewUpdater(r.p)})
		if err != nil {
			t.Fatal(err)
		}
		defer r.running(f.e)()
		test(t, f)
	})
}

// fires fires the trigger. If that creates a run, fires follows the run to its end.
func (f *followed) fires(want trigger.State, run string) {
	f.t.Helper()
	got, err := trigger.Fire(f.t.Context(), f.e, f.trigger)
	if err != nil || got.State != want || !strings.HasPrefix(got.Run, run) {
		f.t.Fatalf("%+v, %v, want %s of %s", got, err, want, run)
	}
	if want == trigger.Created {
		f.until(got.Run, stages.Completed)
	}
}

func (f *followed) versions() string {
	var out []string
	for _, name := range []string{"a", "b"} {
		c, _ := f.p.Cluster(name)
		out = append(out, c.ControlPlane+" "+c.Pools[0].Image)
	}
	return strings.Join(out, ", ")
}

// twoClusters returns a state with two clusters in one region.
func twoClusters(version string) embedded.State {
	cluster := func() *embedded.Cluster {
		return &embedded.Cluster{Region: "eu", ControlPlane: version, Pools: []upgrade.Pool{{Name: "nodes", Version: version, Image: "i1"}}}
	}
	return embedded.State{
		Regions:  map[string]*embedded.Region{"eu": {Images: map[string][]string{"": {"i2", "i1"}}}},
		Clusters: map[string]*embedded.Cluster{"a": cluster(), "b": cluster()}, Takes: metav1.Duration{Duration: time.Minute},
	}
}

// TestAFleetFollowsAChannelOfVersions checks that a fleet which is two minor versions behind
// catches up in two runs, and gets another run for a patch. A new image alone starts no run.
func TestAFleetFollowsAChannelOfVersions(t *testing.T) {
	follow(t, twoClusters("1.29.0"), upgrade.Profile{Channel: upgrade.Rapid}, func(t *testing.T, f *followed) {
		f.fires(trigger.Created, "auto-1.30.2")
		f.fires(trigger.Created, "auto-1.31.0")
		f.fires(trigger.Current, "auto-1.31.0")
		f.p.Edit(func(s *embedded.State) { s.Regions["eu"].Images[""] = []string{"i3", "i2", "i1"} })
		f.fires(trigger.Current, "auto-1.31.0")
		f.catalog.releases = append(f.catalog.releases, upgrade.Release{Version: "1.31.1"})
		f.fires(trigger.Created, "auto-1.31.1")
		if got := f.versions(); got != "1.31.1 i3, 1.31.1 i3" {
			t.Error(got)
		}
	})
}

func TestAFleetFollowsImages(t *testing.T) {
	for _, selection := range []upgrade.Selection{upgrade.Latest, upgrade.Consistent} {
		follow(t, twoClusters("1.30.2"), upgrade.Profile{Channel: upgrade.NodeImage, NodeImages: selection}, func(t *testing.T, f *followed) {
			f.fires(trigger.Created, "auto-images-")
			f.fires(trigger.Current, "auto-images-")
			f.catalog.releases = append(f.catalog.releases, upgrade.Release{Version: "1.31.1"})
			f.fires(trigger.Current, "auto-images-")
			f.p.Edit(func(s *embedded.State) { s.Regions["eu"].Images[""] = []string{"i3", "i2", "i1"} })
			f.fires(trigger.Created, "auto-images-")
			f.fires(trigger.Current, "auto-images-")
			if got := f.versions(); got != "1.30.2 i3, 1.30.2 i3" {
				t.Error(selection, got)
			}
		})
	}
}

func TestAFleetFollowsSecurityPatches(t *testing.T) {
	follow(t, twoClusters("1.30.2"), upgrade.Profile{Channel: upgrade.SecurityPatch}, func(t *testing.T, f *followed) {
		f.catalog.patches = []string{"i2"}
		f.fires(trigger.Created, "auto-images-")
		f.fires(trigger.Current, "auto-images-")
		if got := f.versions(); got != "1.30.2 i2, 1.30.2 i2" {
			t.Error(got)
		}
	})
}

// TestAProfileThatAFleetCannotFollowCreatesNoRun checks that no run is created if a cluster cannot
// be upgraded: see Check.
func TestAProfileThatAFleetCannotFollowCreatesNoRun(t *testing.T) {
	w := twoClusters("1.29.0")
	w.Clusters["b"].ControlPlane = "1.31.0"
	follow(t, w, upgrade.Profile{Channel: upgrade.Stable}, func(t *testing.T, f *followed) {
		_, err := trigger.Fire(t.Context(), f.e, f.trigger)
		if err == nil || !strings.Contains(err.Error(), "cluster b: control plane: it has 1.31.0 and would go down to 1.30.2") {
			t.Error(err)
		}
	})
}

// TestAProfileLeavesOutClustersThatDoNotAnswer checks that a cluster or a region that does not
// answer does not keep the rest of the fleet from an automatic upgrade. The run skips those
// clusters by name, even if a later stage waits for their stage. A run that is created once they
// answer has them.
func TestAProfileLeavesOutClustersThatDoNotAnswer(t *testing.T) {
	stopped := func(s *embedded.State, down bool) { s.Clusters["b"].Unavailable = down }
	cutOff := func(s *embedded.State, down bool) { s.Regions["us"].Unavailable = down }
	for name, c := range map[string]struct {
		profile upgrade.Profile
		down    func(s *embedded.State, down bool)
		run     string
	}{
		"a stopped cluster":              {upgrade.Profile{Channel: upgrade.Rapid}, stopped, "auto-1.31.0"},
		"a region that is not available": {upgrade.Profile{Channel: upgrade.Rapid}, cutOff, "auto-1.31.0"},
		"consistent images":              {upgrade.Profile{Channel: upgrade.Rapid, NodeImages: upgrade.Consistent}, stopped, "auto-1.31.0"},
		"the newest images":              {upgrade.Profile{Channel: upgrade.NodeImage}, stopped, "auto-images-"},
		"security patches":               {upgrade.Profile{Channel: upgrade.SecurityPatch}, cutOff, "auto-images-"},
	} {
		t.Run(name, func(t *testing.T) {
			w := twoClusters("1.30.2")
			w.Regions["us"] = &embedded.Region{Images: w.Regions["eu"].Images}
			w.Clusters["b"].Region = "us"
			w.Clusters["c"] = &embedded.Cluster{Region: "eu", ControlPlane: "1.30.2", Pools: []upgrade.Pool{{Name: "nodes", Version: "1.30.2", Image: "i1"}}}
			follow(t, w, c.profile, func(t *testing.T, f *followed) {
				f.catalog.patches = []string{"i2"}
				f.trigger.Strategy = inStages("a", "b", "c")
				for _, cluster := range []string{"a", "b", "c"} {
					f.join(cluster, cluster)
				}
				f.p.Edit(func(s *embedded.State) { c.down(s, true) })
				got, err := trigger.Fire(t.Context(), f.e, f.trigger)
				if err != nil || got.State != trigger.Created || !strings.HasPrefix(got.Run, c.run) {
					t.Fatalf("%+v, %v, want a run %s", got, err, c.run)
				}
				f.until(got.Run, stages.Completed)
				if why := f.reason(got.Run, "b"); !strings.Contains(why, "left out: it did not answer when the target of the run was determined") {
					t.Errorf("b: %q", why)
				}
				if has, _ := f.p.Cluster("b"); len(has.Begun) != 0 {
					t.Errorf("b was changed: %+v", has.Begun)
				}
				f.p.Edit(func(s *embedded.State) { c.down(s, false) })
				f.create("again", f.trigger.Strategy)
				f.until("again", stages.Completed)
				for _, name := range []string{"a", "b", "c"} {
					has, _ := f.p.Cluster(name)
					if len(has.Begun) == 0 || has.Pools[0].Image != "i2" {
						t.Errorf("%s has %+v", name, has)
					}
				}
			})
		})
	}
}

// inStages returns a strategy with one stage for each cluster, without a failure budget.
func inStages(clusters ...string) stages.Strategy {
	s := stages.Strategy{Profile: stages.ClusterUpdate}
	for _, name := range clusters {
		s.Stages = append(s.Stages, stages.Stage{Name: name, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{groupLabel: name}}})
	}
	return s
}

// TestAProfileNamesClustersThatItCannotDescribe checks that a profile needs at least one cluster
// that answers, and that a cluster which the provider does not have is an error.
func TestAProfileNamesClustersThatItCannotDescribe(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*embedded.State)
		want string
	}{
		"no cluster answers": {func(s *embedded.State) { s.Regions["eu"].Unavailable = true }, "cluster a: describe cluster a: region eu is not available"},
		"one is missing":     {func(s *embedded.State) { delete(s.Clusters, "b") }, "cluster b: "},
	} {
		t.Run(name, func(t *testing.T) {
			follow(t, twoClusters("1.30.2"), upgrade.Profile{Channel: upgrade.Rapid}, func(t *testing.T, f *followed) {
				f.p.Edit(c.edit)
				if got, err := trigger.Fire(t.Context(), f.e, f.trigger); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%+v, %v, want %q", got, err, c.want)
				}
			})
		})
	}
}

func TestAutoUpgradeYieldsOneObject(t *testing.T) {
	follow(t, twoClusters("1.30.2"), upgrade.Profile{Channel: upgrade.Rapid}, func(t *testing.T, f *followed) {
		for query, want := range map[snapshot.Query]int{{}: 1, {Kind: "ConfigMap"}: 0, {Group: "slipway.dev", Kind: "ClusterUpgrade", Name: "prod"}: 1, {Name: "other"}: 0} {
			got := 0
			for _, err := range f.auto.Objects(t.Context(), query) {
				if err != nil {
					t.Fatal(err)
				}
				got++
			}
			if got != want {
				t.Errorf("%+v: %d objects, want %d", query, got, want)
			}
		}
	})
}
