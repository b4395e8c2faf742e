package peers

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wI2L/jsondiff"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/drift"
)

// pairs are the inputs of BenchmarkCompare in package drift, by its names, each
// with a change of the member's object.
func pairs() map[string]func(t testing.TB) (hub, member *unstructured.Unstructured) {
	change := func(t testing.TB, name, value string, path ...string) (hub, member *unstructured.Unstructured) {
		hub, member = read(t, name), read(t, name)
		set(t, member, value, path...)
		return hub, member
	}
	return map[string]func(t testing.TB) (hub, member *unstructured.Unstructured){
		"deployment-one-change": func(t testing.TB) (hub, member *unstructured.Unstructured) {
			hub, member = read(t, "deployment-hub.json"), read(t, "deployment-hub.json")
			set(t, member, int64(7), "spec", "replicas")
			return hub, member
		},
		"configmap-200k": func(t testing.TB) (hub, member *unstructured.Unstructured) {
			return change(t, "configmap.json.gz", "changed", "data", "file-07.conf")
		},
		"crd-500k": func(t testing.TB) (hub, member *unstructured.Unstructured) {
			return change(t, "crd.json.gz", "others", "spec", "names", "plural")
		},
	}
}

// read reads an object from the benchmarks' inputs. Whole numbers are float64 in
// neither library's favour: jsondiff.Compare encodes both objects again.
func read(t testing.TB, name string) *unstructured.Unstructured {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "testdata", "bench", name))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var r io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(b); err != nil {
		t.Fatal(err)
	}
	return o
}

func set(t testing.TB, o *unstructured.Unstructured, v any, path ...string) {
	t.Helper()
	if err := unstructured.SetNestedField(o.Object, v, path...); err != nil {
		t.Fatal(err)
	}
}

// Both find the one change, so that they are measured at the same work.
func TestBothFindTheChange(t *testing.T) {
	for name, pair := range pairs() {
		hub, member := pair(t)
		r, err := drift.Compare(hub, member, drift.Options{})
		if err != nil || r.Total != 1 {
			t.Errorf("%s: drift finds %d: %+v, %v", name, r.Total, r.Differences, err)
		}
		p, err := jsondiff.Compare(hub.Object, member.Object)
		if err != nil || len(p) != 1 {
			t.Errorf("%s: jsondiff finds %v, %v", name, p, err)
		}
	}
}

// BenchmarkCompare takes the same objects through both.
func BenchmarkCompare(b *testing.B) {
	for name, pair := range pairs() {
		hub, member := pair(b)
		m, err := drift.Compile(hub, drift.Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name+"/slipway", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if r, err := m.Compare(member, nil); err != nil || r.Total != 1 {
					b.Fatal(r.Total, err)
				}
			}
		})
		b.Run(name+"/jsondiff", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if p, err := jsondiff.Compare(hub.Object, member.Object); err != nil || len(p) != 1 {
					b.Fatal(len(p), err)
				}
			}
		})
	}
}
