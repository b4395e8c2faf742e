package hubtarget

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/hub"
	"github.com/slipway-dev/slipway/hub/manifests"
	"github.com/slipway-dev/slipway/internal/kubeenv"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// hubEnv is a hub that is served, with two members: member1 in the stage staging, member2 in the stage prod.
type hubEnv struct {
	t       *testing.T
	server  *kubeenv.Server
	objects dynamic.Interface
	files   string
}

func newHubEnv(t *testing.T) *hubEnv {
	t.Helper()
	w := &hubEnv{t: t, files: t.TempDir()}
	names := []string{"hub", "member1", "member2"}
	servers := kubeenv.ForTest(t).Servers(t, names...)
	w.server = servers[0]
	for i, s := range servers[1:] {
		w.write(names[i+1]+".kubeconfig", s.Kubeconfig())
	}
	w.must(manifests.Install(t.Context(), w.server.Config(), manifests.Options{}))
	var err error
	w.objects, err = dynamic.NewForConfig(w.server.Config())
	w.must(err)
	for name, labels := range map[string]string{"member1": "staging", "member2": "prod"} {
		w.create("cluster.kubernetes-fleet.io/v1beta1", "memberclusters", "MemberCluster", "", name, map[string]any{}, map[string]string{"environment": labels})
	}
	h, err := hub.New(hub.Config{
		Rest: w.server.Config(), LeaseDuration: 3 * time.Second,
		Dialer: member.NewDialer(member.KubeconfigDirectory(w.files, member.Trusted()), member.Options{}),
		Engine: fleet.Config{Rules: snapshot.Rules{Never: []snapshot.GroupKind{{Kind: "Secret"}}}},
	})
	w.must(err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	return w
}

func (w *hubEnv) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *hubEnv) write(name string, text []byte) string {
	w.t.Helper()
	path := filepath.Join(w.files, name)
	w.must(os.WriteFile(path, text, 0o600))
	return path
}

// create creates an object with the rights of an administrator.
func (w *hubEnv) create(version, resource, kind, namespace, name string, spec map[string]any, labels map[string]string) {
	w.t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": kind}}
	if kind == "ConfigMap" {
		u.Object["data"] = spec
	} else if spec != nil {
		u.Object["spec"] = spec
	}
	u.SetName(name)
	u.SetNamespace(namespace)
	u.SetLabels(labels)
	gv, err := schema.ParseGroupVersion(version)
	w.must(err)
	_, err = w.objects.Resource(gv.WithResource(resource)).Namespace(namespace).Create(w.t.Context(), u, metav1.CreateOptions{})
	w.must(err)
}

const placementAPI = "placement.kubernetes-fleet.io/v1beta1"

// strategySpec has an approval after staging.
const strategySpec = `
rollback: {}
stages:
- name: staging
  labelSelector: {matchLabels: {environment: staging}}
  afterStageTasks: [{type: Approval}]
- name: prod
  labelSelector: {matchLabels: {environment: prod}}
`

// declare declares a placement web, and a strategy careful: those of the cluster for the namespace shop, or, where
// that is named, the twins in it.
func (w *hubEnv) declare(namespace string) {
	w.t.Helper()
	var strategy map[string]any
	w.must(yaml.Unmarshal([]byte(strategySpec), &strategy))
	selector := map[string]any{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}
	twin := "Cluster"
	if namespace != "" {
		selector["kind"], selector["name"], twin = "ConfigMap", "web", ""
	}
	spec := map[string]any{"resourceSelectors": []any{selector}, "strategy": map[string]any{"type": "External"}}
	lower := strings.ToLower(twin)
	w.create(placementAPI, lower+placementKind, twin+"ResourcePlacement", namespace, "web", spec, nil)
	w.create(placementAPI, lower+strategyKind, twin+"StagedUpdateStrategy", namespace, "careful", strategy, nil)
	w.eventually("a snapshot of "+namespace+"/web", func() bool {
		l, err := w.objects.Resource(gvr(snapshotKind, namespace != "")).Namespace(namespace).List(w.t.Context(), metav1.ListOptions{})
		w.must(err)
		return len(l.Items) > 0
	})
}

// patience is how long anything may take, on a machine that does much else.
const patience = 2 * time.Minute

func (w *hubEnv) eventually(what string, happened func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(patience); !happened(); {
		if time.Now().After(deadline) {
			w.t.Fatalf("waiting for %s", what)
		}
		select {
		case <-w.t.Context().Done():
			w.t.Fatal(w.t.Context().Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// as is the hub as a user sees it; an empty user is an administrator. Arguments are flags of the command.
func (w *hubEnv) as(user string, args ...string) (*httpapi.Client, *Hub) {
	w.t.Helper()
	text := w.server.Kubeconfig()
	if user != "" {
		text = w.server.KubeconfigFor(user)
	}
	f := flags(w.t, append([]string{"--kubeconfig", w.write(user+"-user.yaml", text)}, args...)...)
	h, err := Open(f, w.files)
	w.must(err)
	w.t.Cleanup(func() { w.must(h.Close()) })
	handler, err := h.Handler()
	w.must(err)
	c, err := httpapi.NewClient("http://hub", httpapi.ClientOptions{Transport: httpapi.InProcess(handler)})
	w.must(err)
	return c, h
}

// until waits for a run to come to a state.
func (w *hubEnv) until(c *httpapi.Client, run string, want stages.State) fleet.RunSummary {
	w.t.Helper()
	var got fleet.RunSummary
	w.eventually(run+" to be "+string(want), func() bool {
		all, err := c.RunSummaries(w.t.Context(), "")
		w.must(err)
		for _, r := range all {
			if r.Name == run {
				got = r
			}
		}
		return got.State == want
	})
	return got
}

// request waits for the open request of a run, and returns its name.
func (w *hubEnv) request(c *httpapi.Client, run string) string {
	w.t.Helper()
	var open []approval.Request
	w.eventually("a request of "+run, func() bool {
		var err error
		open, err = c.Requests(w.t.Context(), run)
		w.must(err)
		return len(open) > 0
	})
	return open[0].Name
}

func spec(name string) fleet.RunSpec {
	return fleet.RunSpec{Name: name, Placement: "web", Strategy: stages.Strategy{Name: "careful"}}
}

// A person who may change the objects of a hub creates, approves, stops, starts, rejects, rolls back and deletes runs
// through them, and reads from its records how they go.
func TestARunIsDirectedThroughItsObject(t *testing.T) {
	w := newHubEnv(t)
	w.create("v1", "namespaces", "Namespace", "", "shop", nil, nil)
	w.create("v1", "configmaps", "ConfigMap", "shop", "web", map[string]any{"key": "v1"}, nil)
	w.declare("")
	ctx := t.Context()
	c, h := w.as("")

	_, err := c.CreateRun(ctx, spec("web-1"))
	w.must(err)
	name := w.request(c, "web-1")
	if got := w.until(c, "web-1", stages.Running); name != "web-1-staging" || got.Stage != "staging" || got.Completed != 1 || got.Clusters != 2 || got.Placement != "web" {
		t.Errorf("request %s of %+v", name, got)
	}
	placements, err := c.Placements(ctx)
	w.must(err)
	if len(placements) != 1 || placements[0].Name != "web" || placements[0].Runs != 1 || placements[0].Snapshots != 1 || placements[0].Latest.Index != 0 {
		t.Errorf("placements %+v", placements)
	}
	s, err := c.Status(ctx, "web-1")
	w.must(err)
	if s.Run.Name != "web-1" || s.Run.Placement != "web" || len(s.Plan.Clusters) != 2 {
		t.Errorf("the record of %s of %s, %d clusters", s.Run.Name, s.Run.Placement, len(s.Plan.Clusters))
	}
	why, err := c.Explain(ctx, "web-1", "member2")
	w.must(err)
	if len(why.Waiting) == 0 {
		t.Errorf("member2 waits for nothing: %+v", why)
	}
	history, err := c.History(ctx, "web-1", 0)
	w.must(err)
	if len(history.Events) == 0 {
		t.Error("no history")
	}

	w.must(c.Command(ctx, "web-1", stages.Command{Verb: stages.Stop}))
	w.until(c, "web-1", stages.Stopped)
	if err := c.Command(ctx, "web-1", stages.Command{Verb: stages.Stop}); err == nil || !strings.Contains(err.Error(), "spec.state is Stop already") {
		t.Errorf("stopped twice: %v", err)
	}
	w.must(c.Command(ctx, "web-1", stages.Command{Verb: stages.Start}))
	w.until(c, "web-1", stages.Running)
	if err := c.Decide(ctx, "other", fleet.Answer{Request: name, Verdict: approval.Approve}); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("a request of another run: %v", err)
	}
	w.must(c.Decide(ctx, "web-1", fleet.Answer{Request: name, Verdict: approval.Approve, Comment: "fine"}))
	w.until(c, "web-1", stages.Completed)
	if err := c.Decide(ctx, "web-1", fleet.Answer{Request: name, Verdict: approval.Reject}); err == nil {
		t.Error("a request that was decided is decided again")
	}

	drifted := 0
	for cluster, err := range c.Drift(ctx, "web", fleet.DriftOptions{}) {
		w.must(err)
		if drifted++; len(cluster.Objects) > 0 || len(cluster.Problems) > 0 {
			t.Errorf("drift of %+v", cluster)
		}
	}
	if drifted != 2 {
		t.Errorf("%d clusters are compared, want 2", drifted)
	}
	strategy, err := h.Strategy(ctx, "careful")
	w.must(err)
	plan, err := c.Preview(ctx, fleet.RunSpec{Placement: "web", Strategy: strategy})
	w.must(err)
	if plan.Len() != 2 {
		t.Errorf("the preview has %d clusters", plan.Len())
	}

	by, err := c.Rollback(ctx, "web-1", fleet.RollbackOptions{})
	if err == nil || !strings.Contains(err.Error(), "the hub refuses the rollback") && by == "" {
		t.Logf("rollback by %s, %v", by, err)
	}
	for _, r := range []struct {
		what string
		err  error
		want string
	}{
		{"abort", c.Command(ctx, "web-1", stages.Command{Verb: stages.Abort}), "a hub has no Abort of a run"},
		{"a reason", c.Command(ctx, "web-1", stages.Command{Verb: stages.Stop, Message: "lunch"}), "leave --message out"},
		{"a cap", c.SetCap(ctx, "all", 3), "caps of a hub"},
		{"a run that is not there", c.Command(ctx, "none", stages.Command{Verb: stages.Stop}), `"none" not found`},
	} {
		if r.err == nil || !strings.Contains(r.err.Error(), r.want) {
			t.Errorf("%s: %v, want %q", r.what, r.err, r.want)
		}
	}
	w.must(c.DeleteRun(ctx, "web-1"))
	w.eventually("web-1 to be gone", func() bool {
		all, err := c.RunSummaries(ctx, "")
		w.must(err)
		return len(all) == 0 || all[0].Name != "web-1"
	})
}

func flags(t *testing.T, args ...string) *Flags {
	t.Helper()
	f := NewFlags(&cli.Options{Name: "slipway"})
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.AddFlags(set)
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	return f
}
