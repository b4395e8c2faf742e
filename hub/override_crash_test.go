package hub_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/hub"
)

// TestCrashAtEveryWriteOfAnOverride changes an override twice with a hub that dies at one of its
// writes, to its store or to the API server, before or after the write. The test repeats that for
// every write. The next hub ends with the versions in order, each index used once, and the last one
// as the latest.
func TestCrashAtEveryWriteOfAnOverride(t *testing.T) {
	s := newStale(t)
	s.createText(`{apiVersion: v1, kind: Namespace, metadata: {name: $NAME}}`)
	for _, lands := range []bool{false, true} {
		for at, over := int64(1), false; !over; at++ {
			name := fmt.Sprintf("o-%v-%d", lands, at)
			f := &fuse{at: at, lands: lands}
			dies := s.hubWith(f)
			for _, value := range []string{"one", "two"} {
				s.sawVersion(dies, name, value)
				if err := dies.SyncOverride(t.Context(), s.name, name); err != nil && !errors.Is(err, errFuse) {
					t.Fatal(err)
				}
				if f.count.Load() >= at {
					break
				}
			}
			over = f.count.Load() < at
			next := s.hubWith(&fuse{})
			s.sawVersion(next, name, "two")
			if err := next.SyncOverride(t.Context(), s.name, name); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			s.wantVersions(name)
			if over && at < 5 {
				t.Errorf("only %d writes were made", at-1)
			}
		}
	}
}

// sawVersion shows a hub an override with a value, and its versions on the API server.
func (s *stale) sawVersion(h *hub.Stale, name, value string) {
	s.t.Helper()
	o := s.parse(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourceOverride
metadata: {name: ` + name + `, namespace: $NAME, uid: ` + name + `}
spec:
  resourceSelectors: [{group: "", version: v1, kind: ConfigMap, name: config}]
  policy: {overrideRules: [{clusterSelector: {clusterSelectorTerms: []}, jsonPatchOverrides: [{op: add, path: /data/b, value: ` + value + `}]}]}
`)
	o.SetGeneration(map[string]int64{"one": 1, "two": 2}[value])
	shown, err := s.on(s.client, "ros", s.name).List(s.t.Context(), metav1.ListOptions{LabelSelector: parentOverride + name})
	err = errors.Join(err, h.See(o))
	for i := range shown.Items {
		err = errors.Join(err, h.See(&shown.Items[i]))
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

const parentOverride = "kubernetes-fleet.io/parent-resource-override="

// wantVersions fails unless the versions are the ones that the dead hub showed, in order, and the
// second one is the latest.
func (s *stale) wantVersions(name string) {
	s.t.Helper()
	list, err := s.on(s.client, "ros", s.name).List(s.t.Context(), metav1.ListOptions{LabelSelector: parentOverride + name})
	if err != nil {
		s.t.Fatal(err)
	}
	var got []string
	for _, v := range list.Items {
		value := "one"
		if strings.Contains(fmt.Sprint(v.Object["spec"]), "value:two") {
			value = "two"
		}
		got = append(got, v.GetName()+" "+value+" "+v.GetLabels()["kubernetes-fleet.io/is-latest-snapshot"])
	}
	slices.Sort(got)
	alone := []string{name + "-0 two true"}
	both := []string{name + "-0 one false", name + "-1 two true"}
	second := []string{name + "-1 two true"}
	if !slices.Equal(got, alone) && !slices.Equal(got, both) && !slices.Equal(got, second) {
		s.t.Errorf("versions %v", got)
	}
}

// hubWith returns a hub on the store and the cluster that dies at a write.
func (s *stale) hubWith(f *fuse, change ...func(*hub.Config)) *hub.Stale {
	s.t.Helper()
	cfg := s.config("stale")
	for _, c := range change {
		c(&cfg)
	}
	cfg.Store = fusedStore{s.store, f}
	cfg.Rest.Wrap(func(next http.RoundTripper) http.RoundTripper { return fusedTransport{next, f} })
	h, err := hub.New(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	out, err := hub.NewStale(h)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(out.Close)
	return out
}

// fuse simulates the death of a process at a write: this write and all later ones fail. lands
// reports whether the write itself takes effect. If at is 0, the process never dies.
type fuse struct {
	at    int64
	lands bool
	count atomic.Int64
	// paths are parts of the paths of counted writes to the API server; none means
	// overridesnapshots.
	paths []string
}

func (f *fuse) counts(r *http.Request) bool {
	paths := f.paths
	if len(paths) == 0 {
		paths = []string{"overridesnapshots"}
	}
	return r.Method != http.MethodGet && slices.ContainsFunc(paths, func(p string) bool { return strings.Contains(r.URL.Path, p) })
}

var errFuse = errors.New("the process has ended")

// write performs a write, unless the process has died.
func (f *fuse) write(do func() error) error {
	n := f.count.Add(1)
	switch {
	case f.at == 0 || n < f.at:
		return do()
	case n == f.at && f.lands:
		if err := do(); err != nil {
			return err
		}
	}
	return errFuse
}

type fusedStore struct {
	backend.Store
	fuse *fuse
}

func (s fusedStore) Put(ctx context.Context, key string, value []byte, prev backend.Revision) (rev backend.Revision, err error) {
	err = s.fuse.write(func() error { rev, err = s.Store.Put(ctx, key, value, prev); return err })
	return rev, err
}

func (s fusedStore) Delete(ctx context.Context, key string, prev backend.Revision) error {
	return s.fuse.write(func() error { return s.Store.Delete(ctx, key, prev) })
}

type fusedTransport struct {
	http.RoundTripper
	fuse *fuse
}

func (t fusedTransport) RoundTrip(r *http.Request) (answer *http.Response, err error) {
	if !t.fuse.counts(r) {
		return t.RoundTripper.RoundTrip(r)
	}
	err = t.fuse.write(func() error { answer, err = t.RoundTripper.RoundTrip(r); return err })
	if err != nil {
		return nil, err
	}
	return answer, nil
}
