package kubefleet_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/slipway-dev/slipway/formats/kubefleet"
)

func TestEngineNames(t *testing.T) {
	long := strings.Repeat("x", 60)
	for _, tc := range []struct{ namespace, name, want string }{
		{"", "web", "web"},
		{"", "web.v2", "c.web.v2"},
		{"a", "web", "n.a.web"},
		{"a", "web.v2", "n.a.web.v2"},
		{"a", strings.Repeat("x", 59), "n.a." + strings.Repeat("x", 59)},
		{"a", long, "h.n.a.xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx.29loq9jbfq7vbebtvrnjr9j1id"},
		{"", long + "xxxx", "h.xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx.fjgg15ovcjjg07kfsmihisvcrv"},
	} {
		got := kubefleet.EngineName(tc.namespace, tc.name)
		if got != tc.want {
			t.Errorf("EngineName(%q, %q) = %q, want %q", tc.namespace, tc.name, got, tc.want)
		}
		namespace, name, ok := kubefleet.ObjectName(got)
		if cut := kubefleet.IsCut(got); cut != strings.HasPrefix(got, "h.") || ok == cut || ok && (namespace != tc.namespace || name != tc.name) {
			t.Errorf("ObjectName(%q) = %q, %q, %v", got, namespace, name, ok)
		}
	}
	for _, name := range []string{"", ".", "a.b", "c.", "c.a", "n.a", "n.a.", "n..a", "h.a.b", "x.y.z", strings.Repeat("x", 64)} {
		if namespace, object, ok := kubefleet.ObjectName(name); ok {
			t.Errorf("ObjectName(%q) = %q, %q, which EngineName does not make", name, namespace, object)
		}
	}
}

// Two objects have the same engine name only if they are the same, and the engine accepts the name.
func FuzzEngineName(f *testing.F) {
	long := strings.Repeat("a", 80)
	for _, s := range [][4]string{
		{"a", "b.c", "", "n.a.b.c"},
		{"", "n.a.b", "a", "b"},
		{"", "c.a", "", "c.c.a"},
		{"", "a", "a", "a"},
		{"", long, "", long + "b"},
		{"a", long, "", "n.a." + long},
		{"", "h.n.a.xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx.29loq9jbfq7vbebtvrnjr9j1id", "a", strings.Repeat("x", 60)},
	} {
		f.Add(s[0], s[1], s[2], s[3])
	}
	f.Fuzz(func(t *testing.T, namespace, name, otherNamespace, other string) {
		if !isObject(namespace, name) || !isObject(otherNamespace, other) {
			return
		}
		got := kubefleet.EngineName(namespace, name)
		same := namespace == otherNamespace && name == other
		if (got == kubefleet.EngineName(otherNamespace, other)) != same {
			t.Errorf("%q/%q and %q/%q: one name %q", namespace, name, otherNamespace, other, got)
		}
		if msgs := validation.IsDNS1123Subdomain(got); len(got) > 63 || len(msgs) > 0 {
			t.Errorf("EngineName(%q, %q) = %q: %v", namespace, name, got, msgs)
		}
		if ns, n, ok := kubefleet.ObjectName(got); ok && (ns != namespace || n != name) {
			t.Errorf("ObjectName(%q) = %q, %q, want %q, %q", got, ns, n, namespace, name)
		}
	})
}

// isObject reports whether an API server accepts the namespace and the name.
func isObject(namespace, name string) bool {
	return len(validation.IsDNS1123Subdomain(name)) == 0 && (namespace == "" || len(validation.IsDNS1123Label(namespace)) == 0)
}
