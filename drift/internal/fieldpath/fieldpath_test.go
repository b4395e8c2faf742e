package fieldpath

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/slipway-dev/slipway/drift/internal/value"
)

func name(s string) Step          { return Step{Name: s} }
func place2(hub, member int) Step { return Step{Item: true, Hub: hub, Member: member} }

func byKey(hub, member int, keys ...any) Step {
	s := place2(hub, member)
	for i := 0; i < len(keys); i += 2 {
		s.Keys = append(s.Keys, value.KeyValue{Name: keys[i].(string), Value: keys[i+1]})
	}
	return s
}

func TestAPointerResolvesOnItsSideAndAKeyPathNamesItems(t *testing.T) {
	for _, c := range []struct {
		path             []Step
		member, hub, key string
	}{
		{nil, "", "", ""},
		{[]Step{name("")}, "/", "/", `[""]`},
		{[]Step{name("spec"), name("replicas")}, "/spec/replicas", "/spec/replicas", ".spec.replicas"},
		{[]Step{name("data"), name("a~b")}, "/data/a~0b", "/data/a~0b", `.data["a~b"]`},
		{[]Step{name("spec"), name("a~1b")}, "/spec/a~01b", "/spec/a~01b", `.spec["a~1b"]`},
		{
			[]Step{name("metadata"), name("labels"), name("app.kubernetes.io/name")},
			"/metadata/labels/app.kubernetes.io~1name", "/metadata/labels/app.kubernetes.io~1name",
			`.metadata.labels["app.kubernetes.io/name"]`,
		},
		{
			[]Step{name("spec"), name("containers"), byKey(0, 2, "name", "app"), name("ports"), byKey(1, -1, "containerPort", int64(80), "protocol", "UDP"), name("x")},
			"/spec/containers/2/ports/1/x", "/spec/containers/0/ports/1/x",
			`.spec.containers[name="app"].ports[containerPort=80,protocol="UDP"].x`,
		},
		{[]Step{name("finalizers"), byKey(-1, 3, "", "a")}, "/finalizers/3", "/finalizers/3", `.finalizers[="a"]`},
		{[]Step{name("args"), place2(1, 2)}, "/args/2", "/args/1", ".args[2]"},
		{[]Step{name("a\x1b[31mb"), name("c\u202ed")}, "/a\x1b[31mb/c\u202ed", "/a\x1b[31mb/c\u202ed", `["a\x1b[31mb"]["c\u202ed"]`},
		{[]Step{name("0")}, "/0", "/0", `["0"]`},
	} {
		got := []string{Pointer(c.path, MemberSide), Pointer(c.path, HubSide), KeyPath(c.path)}
		if diff := cmp.Diff([]string{c.member, c.hub, c.key}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestAKeyPathShortensNamesOfUnreasonableLength(t *testing.T) {
	long := strings.Repeat("é", 10_000)
	got := KeyPath([]Step{name(long), byKey(0, 0, "name", long+"x")})
	if len(got) > 500 || strings.Contains(got, "\ufffd") {
		t.Errorf("got %d bytes: %s", len(got), got)
	}
	if got == KeyPath([]Step{name(long + "y"), byKey(0, 0, "name", long+"x")}) {
		t.Error("other names have the same key path")
	}
}

func TestPathsAreSortedAsPeopleCount(t *testing.T) {
	want := []string{
		"", "/a", "/a/0", "/a/2", "/a/10", "/a/x", "/a2", "/a02", "/a10", "/a10b", "/b/9", "/b/10", "/b/18446744073709551617",
	}
	paths := make([][]Step, len(want))
	for i, text := range want {
		tokens, err := splitPointer(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, token := range tokens {
			s := name(token)
			if n := slices.Index([]string{"0", "", "2", "", "", "", "", "", "", "", "10"}, token); n >= 0 && tokens[0] == "a" {
				s = place2(-1, n)
			}
			paths[i] = append(paths[i], s)
		}
	}
	slices.Reverse(paths)
	slices.SortFunc(paths, func(a, b []Step) int { return Compare(a, MemberSide, b, MemberSide) })
	got := make([]string, len(paths))
	for i, p := range paths {
		got[i] = Pointer(p, MemberSide)
	}
	i, j := slices.Index(want, "/a2"), slices.Index(want, "/a02")
	want[i], want[j] = want[j], want[i] // 2 is 02; then the text decides.
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAPatternMatchesNamesIndexesAndKeys(t *testing.T) {
	var hub map[string]any
	if err := json.Unmarshal([]byte(`{"spec":{"containers":[{"name":"app","image":"a"},{"name":"x,y=]","image":"b"}],"tags":["a",5]}}`), &hub); err != nil {
		t.Fatal(err)
	}
	app := []Step{name("spec"), name("containers"), byKey(0, 0, "name", "app"), name("image")}
	odd := []Step{name("spec"), name("containers"), place2(1, 1), name("image")}
	tag := []Step{name("spec"), name("tags"), byKey(1, 1, "", int64(5))}
	for _, c := range []struct {
		pattern string
		path    []Step
		want    bool
	}{
		{"", app, true},
		{"/spec", app, true},
		{"/spec/containers/*/image", app, true},
		{"/spec/containers/[name=app]", app, true},
		{"/spec/containers/[name=app]/image", app, true},
		{`/spec/containers/[name="app"]/image`, app, true},
		{`/spec/containers/[name="app",image="a"]/image`, app, true},
		{`/spec/containers/[name="app",image="b"]/image`, app, false},
		{"/spec/containers/[name=app]/image/x", app, false},
		{"/spec/containers/[name=b]/image", app, false},
		{"/spec/containers/0/image", app, true},
		{"/spec/containers/1/image", app, false},
		{"/spec/containers/00/image", app, false},
		{`/spec/containers/[name="x,y=]"]/image`, odd, true},
		{"/spec/[name=app]", app, false},
		{"/*/*/*/*", app, true},
		{"/spec/tags/[=5]", tag, true},
		{`/spec/tags/[="5"]`, tag, true},
		{"/spec/tags/[=a]", tag, false},
		{"/spec/tags/[x=a]", tag, false},
		{"/data", app, false},
	} {
		p, err := ParsePattern(c.pattern)
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		if got := Follow(nil, c.path, hub, hub).Within(p); got != c.want {
			t.Errorf("%s: got %v for %s", c.pattern, got, Pointer(c.path, MemberSide))
		}
	}
}

func TestInvalidPatternsAreRefused(t *testing.T) {
	for _, s := range []string{
		"spec", "/a~", "/a~2", "/[name=app", "/[]", "/[name]", `/[name="app]`, `/[name="a"b]`, "/[a=1,]", "/[a=1,b]",
	} {
		if p, err := ParsePattern(s); err == nil {
			t.Errorf("%q is taken for %v", s, p)
		}
	}
}

// Threat T9: splitting a joined path returns the same steps.
func FuzzPointer(f *testing.F) {
	f.Add("a/b", "~1", "\x1b[31m", uint16(3))
	f.Add("", "~", "/", uint16(0))
	f.Fuzz(func(t *testing.T, a, b, c string, index uint16) {
		path := []Step{name(a), name(b), place2(int(index), -1), name(c)}
		text := Pointer(path, MemberSide)
		tokens, err := splitPointer(text)
		if err != nil || len(tokens) != 4 || tokens[0] != a || tokens[1] != b || tokens[3] != c {
			t.Fatalf("%q became %q, %v", text, tokens, err)
		}
		var root any = map[string]any{a: map[string]any{b: append(make([]any, index), map[string]any{c: text})}}
		if end := Follow(nil, path, root, nil); end[3].InHub != text {
			t.Errorf("%q leads to %v", text, end[3].InHub)
		}
		for _, r := range KeyPath(path) {
			if r < ' ' || r == 0x7f || '\u0080' <= r && r < '\u00a0' {
				t.Errorf("the key path %q holds a control character", KeyPath(path))
			}
		}
	})
}

func FuzzPattern(f *testing.F) {
	for _, s := range []string{"", "/spec/[name=app]/*", `/[a="b\"",c=1]`, "/~0~1", "/[=]", `/["`, "/[", "/]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParsePattern(s)
		if err != nil {
			return
		}
		path := []Step{name("a"), byKey(0, 0, "name", "app"), name("c")}
		Follow(nil, path, nil, nil).Within(p)
	})
}
