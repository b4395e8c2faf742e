package drift

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func name(s string) step          { return step{name: s} }
func place2(hub, member int) step { return step{item: true, hub: hub, member: member} }

func byKey(hub, member int, keys ...any) step {
	s := place2(hub, member)
	for i := 0; i < len(keys); i += 2 {
		s.keys = append(s.keys, keyValue{keys[i].(string), keys[i+1]})
	}
	return s
}

func TestAPointerResolvesOnItsSideAndAKeyPathNamesItems(t *testing.T) {
	for _, c := range []struct {
		path             []step
		member, hub, key string
	}{
		{nil, "", "", ""},
		{[]step{name("")}, "/", "/", `[""]`},
		{[]step{name("spec"), name("replicas")}, "/spec/replicas", "/spec/replicas", ".spec.replicas"},
		{[]step{name("data"), name("a~b")}, "/data/a~0b", "/data/a~0b", `.data["a~b"]`},
		{[]step{name("spec"), name("a~1b")}, "/spec/a~01b", "/spec/a~01b", `.spec["a~1b"]`},
		{
			[]step{name("metadata"), name("labels"), name("app.kubernetes.io/name")},
			"/metadata/labels/app.kubernetes.io~1name", "/metadata/labels/app.kubernetes.io~1name",
			`.metadata.labels["app.kubernetes.io/name"]`,
		},
		{
			[]step{name("spec"), name("containers"), byKey(0, 2, "name", "app"), name("ports"), byKey(1, -1, "containerPort", int64(80), "protocol", "UDP"), name("x")},
			"/spec/containers/2/ports/1/x", "/spec/containers/0/ports/1/x",
			`.spec.containers[name="app"].ports[containerPort=80,protocol="UDP"].x`,
		},
		{[]step{name("finalizers"), byKey(-1, 3, "", "a")}, "/finalizers/3", "/finalizers/3", `.finalizers[="a"]`},
		{[]step{name("args"), place2(1, 2)}, "/args/2", "/args/1", ".args[2]"},
		{[]step{name("a\x1b[31mb"), name("c\u202ed")}, "/a\x1b[31mb/c\u202ed", "/a\x1b[31mb/c\u202ed", `["a\x1b[31mb"]["c\u202ed"]`},
		{[]step{name("0")}, "/0", "/0", `["0"]`},
	} {
		got := []string{pointerTo(c.path, memberSide), pointerTo(c.path, hubSide), keyPath(c.path)}
		if diff := cmp.Diff([]string{c.member, c.hub, c.key}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestAKeyPathShortensNamesOfUnreasonableLength(t *testing.T) {
	long := strings.Repeat("é", 10_000)
	got := keyPath([]step{name(long), byKey(0, 0, "name", long+"x")})
	if len(got) > 500 || strings.Contains(got, "\ufffd") {
		t.Errorf("got %d bytes: %s", len(got), got)
	}
	if got == keyPath([]step{name(long + "y"), byKey(0, 0, "name", long+"x")}) {
		t.Error("other names have the same key path")
	}
}

func TestPathsAreSortedAsPeopleCount(t *testing.T) {
	want := []string{
		"", "/a", "/a/0", "/a/2", "/a/10", "/a/x", "/a2", "/a02", "/a10", "/a10b", "/b/9", "/b/10", "/b/18446744073709551617",
	}
	paths := make([][]step, len(want))
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
	slices.SortFunc(paths, func(a, b []step) int { return comparePaths(a, memberSide, b, memberSide) })
	got := make([]string, len(paths))
	for i, p := range paths {
		got[i] = pointer(p)
	}
	i, j := slices.Index(want, "/a2"), slices.Index(want, "/a02")
	want[i], want[j] = want[j], want[i] // 2 is 02; then the text decides.
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAPatternMatchesNamesIndexesAndKeys(t *testing.T) {
	hub := fromJSON(t, `{"spec":{"containers":[{"name":"app","image":"a"},{"name":"x,y=]","image":"b"}],"tags":["a",5]}}`)
	app := []step{name("spec"), name("containers"), byKey(0, 0, "name", "app"), name("image")}
	odd := []step{name("spec"), name("containers"), place2(1, 1), name("image")}
	tag := []step{name("spec"), name("tags"), byKey(1, 1, "", int64(5))}
	for _, c := range []struct {
		pattern string
		path    []step
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
		p, err := parsePattern(c.pattern)
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		if got := follow(nil, c.path, hub, hub).within(p); got != c.want {
			t.Errorf("%s: got %v for %s", c.pattern, got, pointer(c.path))
		}
	}
}

func TestAPatternThatIsNoneIsRefused(t *testing.T) {
	for _, s := range []string{
		"spec", "/a~", "/a~2", "/[name=app", "/[]", "/[name]", `/[name="app]`, `/[name="a"b]`, "/[a=1,]", "/[a=1,b]",
	} {
		if p, err := parsePattern(s); err == nil {
			t.Errorf("%q is taken for %v", s, p)
		}
	}
}

// Threat T9: what was joined is what it is split into.
func FuzzPointer(f *testing.F) {
	f.Add("a/b", "~1", "\x1b[31m", uint16(3))
	f.Add("", "~", "/", uint16(0))
	f.Fuzz(func(t *testing.T, a, b, c string, index uint16) {
		path := []step{name(a), name(b), place2(int(index), -1), name(c)}
		text := pointerTo(path, memberSide)
		tokens, err := splitPointer(text)
		if err != nil || len(tokens) != 4 || tokens[0] != a || tokens[1] != b || tokens[3] != c {
			t.Fatalf("%q became %q, %v", text, tokens, err)
		}
		var root any = map[string]any{a: map[string]any{b: append(make([]any, index), map[string]any{c: text})}}
		if end := follow(nil, path, root, nil); end[3].inHub != text {
			t.Errorf("%q leads to %v", text, end[3].inHub)
		}
		for _, r := range keyPath(path) {
			if r < ' ' || r == 0x7f || '\u0080' <= r && r < '\u00a0' {
				t.Errorf("the key path %q holds a control character", keyPath(path))
			}
		}
	})
}

func FuzzPattern(f *testing.F) {
	for _, s := range []string{"", "/spec/[name=app]/*", `/[a="b\"",c=1]`, "/~0~1", "/[=]", `/["`, "/[", "/]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := parsePattern(s)
		if err != nil {
			return
		}
		path := []step{name("a"), byKey(0, 0, "name", "app"), name("c")}
		follow(nil, path, nil, nil).within(p)
	})
}
