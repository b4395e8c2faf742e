package clusterapi

import (
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/version"
)

// tree is JSON, as a management cluster returned it: what has another type than
// expected counts as missing.
type tree = map[string]any

const (
	// maxText bounds a name, a version or an image, maxMessage what is quoted of a
	// status, both in bytes.
	maxText    = 512
	maxMessage = 256
)

// text returns a short string, empty where there is none.
func text(t tree, path ...string) string {
	s, _, _ := unstructured.NestedString(t, path...)
	if len(s) > maxText {
		return ""
	}
	return s
}

// quoted returns what may be said to people of a string: its beginning, in one
// line.
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

// number returns a whole number that is not negative.
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

// count is number, with 0 for none.
func count(t tree, path ...string) int64 {
	n, _ := number(t, path...)
	return n
}

func truth(t tree, path ...string) bool {
	b, _, _ := unstructured.NestedBool(t, path...)
	return b
}

// branch returns a map that is not changed, nil where there is none.
func branch(t tree, path ...string) tree {
	v, _, _ := unstructured.NestedFieldNoCopy(t, path...)
	m, _ := v.(tree)
	return m
}

// branches returns the maps of a list, at most so many as are read.
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

// sameVersion reports whether two Kubernetes versions are the same, with or
// without a v before them. What is no version is the same as nothing.
func sameVersion(a, b string) bool {
	va, errA := version.ParseSemantic(a)
	vb, errB := version.ParseSemantic(b)
	return errA == nil && errB == nil && va.EqualTo(vb) && va.BuildMetadata() == vb.BuildMetadata()
}

// sameRelease is sameVersion for what a kubelet reports, which may carry the mark
// of its builder.
func sameRelease(a, b string) bool {
	va, errA := version.ParseSemantic(a)
	vb, errB := version.ParseSemantic(b)
	return errA == nil && errB == nil &&
		va.Major() == vb.Major() && va.Minor() == vb.Minor() && va.Patch() == vb.Patch()
}
