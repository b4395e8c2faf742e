package hub_test

import (
	"context"
	"encoding/base32"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	kubemember "github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/hub"
	"github.com/slipway-dev/slipway/internal/kubeenv"
	"github.com/slipway-dev/slipway/placement"
)

// tally counts requests by their target. Records of the engine appear with their keys.
type tally struct {
	mu    sync.Mutex
	calls map[string]int
}

func (c *tally) Wrap(next http.RoundTripper) http.RoundTripper {
	return tallied(func(r *http.Request) (*http.Response, error) {
		call := kubeenv.CallOf(r)
		about := call.Verb + " " + call.Resource
		if call.Verb != "watch" && call.Verb != "list" {
			about += " " + recordKey(r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:])
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.calls == nil {
			c.calls = map[string]int{}
		}
		c.calls[about]++
		return next.RoundTrip(r)
	})
}

type tallied func(*http.Request) (*http.Response, error)

func (f tallied) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// recordKey returns the key of the record in a Secret of this name, if it has one.
func recordKey(name string) string {
	text, _ := strings.CutPrefix(name, "r-")
	key, err := base32.HexEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ToUpper(text))
	if err != nil || text == name {
		return name
	}
	return string(key)
}

// in returns the number of requests within a time, the number of requests whose names have a
// suffix, and the most frequent requests.
func (c *tally) in(d time.Duration, apart string) (rest, some int, most string) {
	c.mu.Lock()
	c.calls = nil
	c.mu.Unlock()
	time.Sleep(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, n := range c.calls {
		if apart != "" && strings.Contains(name+"/", apart+"/") {
			some += n
		} else {
			rest += n
		}
	}
	names := slices.SortedFunc(maps.Keys(c.calls), func(a, b string) int { return c.calls[b] - c.calls[a] })
	var lines strings.Builder
	for _, name := range names[:min(len(names), 40)] {
		fmt.Fprintf(&lines, "\n%4d %s", c.calls[name], name)
	}
	return rest, some, lines.String()
}

// TestAHubIsQuiet: an idle hub with 25 placements whose drift is watched makes at most 80 requests
// a minute to its API server. With six additional placements that are stuck it makes at most 160.
// Its members get hardly any.
func TestAHubIsQuiet(t *testing.T) {
	t.Parallel()
	w := newHubEnvAlone(t, "hub-quiet", 3)
	w.create(memberOf(w.name+"-gone", nil)) // it cannot be reached
	var onHub, onMembers tally
	w.start("hub", func(c *hub.Config) {
		c.LeaseDuration, c.AlwaysLead, c.Collect, c.MemberNamespaces = 15*time.Second, false, 0, true
		c.Rest.Wrap(onHub.Wrap)
		way := w.way("hub")
		c.Dialer = kubemember.NewDialer(func(ctx context.Context, m placement.Cluster) (*rest.Config, error) {
			cfg, err := way(ctx, m)
			if err == nil {
				cfg.Wrap(onMembers.Wrap)
			}
			return cfg, err
		}, kubemember.Options{})
	})
	for i := range 25 {
		w.createText(fmt.Sprintf(`{apiVersion: v1, kind: Namespace, metadata: {name: $NAME-%d}}`, i))
		w.createText(fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: cm, namespace: $NAME-%d}, data: {key: v1}}`, i))
		w.createText(fmt.Sprintf(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: $NAME-%d}
spec:
  resourceSelectors: [{group: "", version: v1, kind: Namespace, name: $NAME-%d}]
  policy: {placementType: PickFixed, clusterNames: [$NAME-m1, $NAME-m2, $NAME-m3]}
  strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 100%%, unavailablePeriodSeconds: 1}, applyStrategy: {whenToApply: Always}}
`, i, i))
	}
	for i := range 25 {
		w.await("crp", fmt.Sprintf("%s-%d", w.name, i), "ClusterResourcePlacementAvailable", "True")
	}
	const window = 30 * time.Second
	// The hub considers all placements again when it gives the member up, and repairs statuses later.
	w.await("mc", w.name+"-gone", "Joined", "False")
	time.Sleep(20 * time.Second)
	if n, _, most := onHub.in(window, ""); n > 40 {
		t.Errorf("an idle hub makes %d requests in %v:%s", n, window, most)
	} else {
		t.Logf("idle: %d requests in %v%s", n, window, most)
	}
	w.stick()
	time.Sleep(time.Minute)
	n, all, most := onHub.in(window, "-all")
	t.Logf("stuck: %d requests in %v, and %d about the sixth placement%s", n, window, all, most)
	if n > 80 {
		t.Errorf("a hub with five placements that are stuck makes %d requests in %v", n, window)
	}
	if all > 60 {
		t.Errorf("a placement that is stuck on all of its members makes %d requests in %v", all, window)
	}
	if n, _, most := onMembers.in(window, ""); n > 15 {
		t.Errorf("the members get %d requests in %v:%s", n, window, most)
	} else {
		t.Logf("members: %d requests in %v%s", n, window, most)
	}
}

// stick makes six placements that cannot continue: of a kind that does not exist; to a cluster that
// does not exist; to a member that cannot be reached; of an object that the member refuses; and of
// a Deployment that never becomes available. The sixth picks all members: one cannot be reached,
// and on the others another placement has its objects.
func (w *hubEnv) stick() {
	w.t.Helper()
	for _, text := range []string{
		`{apiVersion: v1, kind: Namespace, metadata: {name: $NAME-refused}}`,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: cm, namespace: $NAME-refused}, data: {key: other}, immutable: true}`,
	} {
		w.createOn(w.members[0].client, w.parse(text))
	}
	for _, text := range []string{
		`{apiVersion: v1, kind: Namespace, metadata: {name: $NAME-refused}}`,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: cm, namespace: $NAME-refused}, data: {key: v1}}`,
		`{apiVersion: v1, kind: Namespace, metadata: {name: $NAME-never}}`,
		`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: $NAME-never}, spec: {replicas: 1, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: "x:1"}]}}}}`,
	} {
		w.createText(text)
	}
	for name, spec := range map[string]string{
		"selector": `{resourceSelectors: [{group: nope.example.com, version: v1, kind: Widget, name: x}], policy: {placementType: PickAll}}`,
		"missing":  `{resourceSelectors: [{group: "", version: v1, kind: Namespace, name: $NAME-0}], policy: {placementType: PickFixed, clusterNames: [nobody]}}`,
		"all":      `{resourceSelectors: [{group: "", version: v1, kind: Namespace, name: $NAME-2}], policy: {placementType: PickAll}}`,
		"gone":     `{resourceSelectors: [{group: "", version: v1, kind: Namespace, name: $NAME-1}], policy: {placementType: PickFixed, clusterNames: [$NAME-gone]}}`,
		"refused":  `{resourceSelectors: [{group: "", version: v1, kind: Namespace, name: $NAME-refused}], policy: {placementType: PickFixed, clusterNames: [$NAME-m1]}}`,
		"never":    `{resourceSelectors: [{group: "", version: v1, kind: Namespace, name: $NAME-never}], policy: {placementType: PickFixed, clusterNames: [$NAME-m2]}}`,
	} {
		w.createText("{apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: ClusterResourcePlacement, metadata: {name: $NAME-" + name + "}, spec: " + spec + "}")
	}
}
