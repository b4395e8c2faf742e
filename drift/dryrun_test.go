package drift_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/drift"
)

// widget is an object of a kind that no schema knows.
func widget(spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "w"}, "spec": spec,
	}}
}

// A dry run removes exactly the differences that an apply would not change. A failed dry run
// removes none, and the report does not contain its message.
func TestDryRunDropsDifferencesThatAnApplyKeeps(t *testing.T) {
	hub := widget(map[string]any{"cpu": "1000m", "size": int64(3), "dropped": "x", "mode": "a"})
	member := widget(map[string]any{"cpu": "1", "size": int64(4), "mode": "b", "extra": "e"})
	// The server reads 1000m as 1, drops a field it does not know, and has a
	// webhook that sets mode.
	would := widget(map[string]any{"cpu": "1", "size": int64(3), "mode": "b", "extra": "e"})
	for _, c := range []struct {
		name       string
		comparison drift.Comparison
		would      *unstructured.Unstructured
		err        error
		want       []string
		warns      bool
	}{
		{"partial", drift.Partial, would, nil, []string{"/spec/size"}, false},
		{"full", drift.Full, would, nil, []string{"/spec/extra", "/spec/size"}, false},
		{"failing", drift.Partial, nil, errors.New("denied because of planted"), []string{"/spec/cpu", "/spec/dropped", "/spec/mode", "/spec/size"}, true},
		{"another object", drift.Partial, member2(), nil, []string{"/spec/cpu", "/spec/dropped", "/spec/mode", "/spec/size"}, true},
		{"nothing changes", drift.Partial, member, nil, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := drift.Compile(hub, drift.Options{Comparison: c.comparison})
			if err != nil {
				t.Fatal(err)
			}
			r, err := m.CompareWith(member, nil, func() (*unstructured.Unstructured, error) { return c.would, c.err })
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range r.Differences {
				got = append(got, d.Path)
			}
			if d := cmp.Diff(c.want, got); d != "" || r.Total != len(c.want) {
				t.Errorf("total %d (-want +got):\n%s", r.Total, d)
			}
			if warned := strings.Contains(strings.Join(r.Warnings, " "), "dry run failed"); warned != c.warns || strings.Contains(strings.Join(r.Warnings, " "), "planted") {
				t.Errorf("warnings: %v", r.Warnings)
			}
		})
	}
}

func member2() *unstructured.Unstructured {
	other := widget(nil)
	other.SetName("other")
	return other
}

// The engine sends a dry run only if an apply can decide about a difference.
func TestDryRunOnlyForDisputedFields(t *testing.T) {
	hub := widget(map[string]any{"a": "1"})
	for name, member := range map[string]*unstructured.Unstructured{
		"equal":      widget(map[string]any{"a": "1"}),
		"extra only": widget(map[string]any{"a": "1", "b": "2"}),
		"missing":    nil,
	} {
		m, err := drift.Compile(hub, drift.Options{Comparison: drift.Full})
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.CompareWith(member, nil, func() (*unstructured.Unstructured, error) {
			t.Errorf("%s: the member was asked", name)
			return nil, nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// An item that only the member has in an atomic list is taken away by an apply, unless
// the member's server puts it back.
func TestADryRunExplainsItemsOfAtomicLists(t *testing.T) {
	m := compiled(t, widget(map[string]any{"list": []any{"a"}}), drift.Partial)
	injected := widget(map[string]any{"list": []any{"a", "injected"}})
	more := widget(map[string]any{"list": []any{"a", "injected", "more"}})
	for name, c := range map[string]struct {
		member, would *unstructured.Unstructured
		want          string
	}{
		"put back":          {injected, injected, `[]`},
		"taken away":        {injected, widget(map[string]any{"list": []any{"a"}}), `["/spec/list/1"]`},
		"one of them stays": {more, injected, `["/spec/list/2"]`},
	} {
		r, err := m.CompareWith(c.member, nil, func() (*unstructured.Unstructured, error) { return c.would, nil })
		paths := []string{}
		for _, d := range r.Differences {
			paths = append(paths, d.Path)
		}
		if got := compact(paths); err != nil || got != c.want {
			t.Errorf("%s: %v, got %s, want %s", name, err, got, c.want)
		}
	}
}
