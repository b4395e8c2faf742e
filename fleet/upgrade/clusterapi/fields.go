package clusterapi

import (
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/version"
)

// tree is JSON from a management cluster. A field of an unexpected type counts as missing.
type tree = map[string]any

const (
	// maxText bounds a name, a version or an image; maxMessage bounds a quoted status. Both are in
	// bytes.
	maxText    = 512
	maxMessage = 256
)

// text returns a short string, or "" if there is none.
func text(t tree, path ...string) string {
	s, _, _ := unstructured.NestedString(t, path...)
	if len(s) > maxText {
		return ""
	}
	return s
}

// quoted returns the part of a string that may be shown to people: its beginning, on one line.
func quoted(t tree, path ...string) string {
	s, _, _ := unstructured.NestedString(t, path...)
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "") + "..."
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, s)
}

// number returns a non-negative whole number, and false if there is none.
func number(t tree, path ...string) (int64, bool) {
	v, _, _ := unstructured.NestedFieldNoCopy(t, path...)
	switch n := v.(type) {
	case int64:
		return n, n >= 0
	case float64:
		return int64(n), n >= 0 && n == float64(int64(n))
	}
	return 0, false
}

// count returns a non-negative whole number, or 0 if there is none.
func count(t tree, path ...string) int64 {
	n, _ := number(t, path...)
	return n
}

func truth(t tree, path ...string) bool {
	b, _, _ := unstructured.NestedBool(t, path...)
	return b
}

// branch returns a map that must not be changed, or nil if there is none.
func branch(t tree, path ...string) tree {
	v, _, _ := unstructured.NestedFieldNoCopy(t, path...)
	m, _ := v.(tree)
	return m
}

// branches returns the maps among the first entries of a list; most bounds the entries.
func branches(t tree, most int, path ...string) []tree {
	v, _, _ := unstructured.NestedFieldNoCopy(t, path...)
	list, _ := v.([]any)
	var out []tree
	for _, e := range list[:min(len(list), most)] {
		if m, ok := e.(tree); ok {
			out = append(out, m)
		}
	}
	return out
}

// sameVersion reports whether two Kubernetes versions are the same, with or without a leading v.
// Texts that are no versions differ from all others.
func sameVersion(a, b string) bool {
	va, errA := version.ParseSemantic(a)
	vb, errB := version.ParseSemantic(b)
	return errA == nil && errB == nil && va.EqualTo(vb) && va.BuildMetadata() == vb.BuildMetadata()
}

// sameRelease compares like sameVersion, for the version of a kubelet, which may carry the mark of
// its builder.
func sameRelease(a, b string) bool {
	va, errA := version.ParseSemantic(a)
	vb, errB := version.ParseSemantic(b)
	return errA == nil && errB == nil &&
		va.Major() == vb.Major() && va.Minor() == vb.Minor() && va.Patch() == vb.Patch()
}
