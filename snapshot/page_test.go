package snapshot_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/versioned"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares with a file under testdata. Stored snapshots have these bytes:
// a change here needs a new format.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, append(slices.Clone(got), '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(bytes.TrimSuffix(want, []byte("\n"))), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func TestEncodings(t *testing.T) {
	set := mustSet(t, ordered()...)
	pages := set.Pages()
	if len(pages) != 1 {
		t.Fatalf("%d pages, want 1", len(pages))
	}
	golden(t, "page.json", pages[0].Encode())
	golden(t, "root.json", set.Root().Encode())
	golden(t, "root-empty.json", mustSet(t).Root().Encode())
	unnamed := set
	in := snapshot.ID{Group: "placement.kubernetes-fleet.io", Version: "v1beta1", Kind: "ResourceEnvelope", Namespace: "shop", Name: "hard"}
	id := snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "shop"}
	unnamed.Unplaced = []snapshot.Unplaced{{ID: id, GenerateName: "a-\"<", Envelope: in}, {ID: id, GenerateName: "b-", Envelope: in}}
	golden(t, "root-unnamed.json", unnamed.Root().Encode())
	unplaced := set
	named := snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "c"}
	unplaced.Unplaced = []snapshot.Unplaced{
		{ID: id, GenerateName: "a-", Envelope: in},
		{ID: named, Reason: snapshot.Duplicated, Envelope: in},
		{ID: named, Reason: snapshot.Duplicated, Envelope: in, First: &in},
		{ID: named, Reason: snapshot.WrongScope, Envelope: in},
	}
	golden(t, "root-unplaced.json", unplaced.Root().Encode())
	page, err := snapshot.DecodePage(pages[0].Encode())
	if diff := cmp.Diff(pages[0], page); err != nil || diff != "" {
		t.Errorf("DecodePage: %v (-want +got):\n%s", err, diff)
	}
	for _, s := range []snapshot.Set{set, unnamed, unplaced, mustSet(t)} {
		root, err := snapshot.DecodeRoot(s.Root().Encode())
		if diff := cmp.Diff(s.Root(), root); err != nil || diff != "" {
			t.Errorf("DecodeRoot: %v (-want +got):\n%s", err, diff)
		}
	}
}

// many are config maps with names that sort in order.
func many(n int) []*unstructured.Unstructured {
	objs := make([]*unstructured.Unstructured, n)
	for i := range objs {
		objs[i] = with(object("v1", "ConfigMap", "shop", fmt.Sprintf("settings-%05d", i)), fmt.Sprint(i), "data", "value")
	}
	return objs
}

// missing counts the pages of b that a lacks.
func missing(a, b snapshot.Set) int {
	have := a.Root().Pages
	n := 0
	for _, digest := range b.Root().Pages {
		if !slices.Contains(have, digest) {
			n++
		}
	}
	return n
}

// A change of one of 10,000 objects costs one body, one page and one root; an added or removed
// object changes no page after its neighbour.
func TestOneChangeCostsOnePage(t *testing.T) {
	objs := many(10_000)
	before := mustSet(t, objs...)
	if n := len(before.Pages()); n < 100 || n > 250 {
		t.Fatalf("10,000 objects are on %d pages", n)
	}
	for i := 0; i < len(objs); i += 997 {
		changed := slices.Clone(objs)
		changed[i] = with(changed[i].DeepCopy(), "new", "data", "value")
		after := mustSet(t, changed...)
		if n := missing(before, after); n != 1 || after.Digest == before.Digest {
			t.Errorf("object %d changed: %d new pages, want 1", i, n)
		}
		if c := snapshot.Compare(before.Items, after.Items); len(c.Changed) != 1 || len(c.Added)+len(c.Removed) != 0 {
			t.Errorf("object %d changed: %+v", i, c)
		}
		if n := missing(before, mustSet(t, slices.Delete(slices.Clone(objs), i, i+1)...)); n > 2 {
			t.Errorf("object %d removed: %d new pages, want at most 2", i, n)
		}
	}
}

func TestPagesHoldEveryItem(t *testing.T) {
	for _, n := range []int{0, 1, 255, 256, 257, 3000} {
		set := mustSet(t, many(n)...)
		var items []snapshot.Item
		for _, p := range set.Pages() {
			if len(p.Items) < 1 || len(p.Items) > 256 || p.Digest != snapshot.Digest(p.Encode()) {
				t.Errorf("page with %d items and digest %s", len(p.Items), p.Digest)
			}
			items = append(items, p.Items...)
		}
		if !slices.Equal(items, set.Items) {
			t.Errorf("%d items: the pages hold %d", n, len(items))
		}
	}
}

// If no name ends a page, pages have 256 items.
func TestPagesAreBounded(t *testing.T) {
	var objs []*unstructured.Unstructured
	for _, p := range mustSet(t, many(1000)...).Pages() {
		for _, item := range p.Items[:len(p.Items)-1] {
			objs = append(objs, object("v1", item.Kind, item.Namespace, item.Name))
		}
	}
	pages := mustSet(t, objs[:600]...).Pages()
	if len(pages) != 3 || len(pages[0].Items) != 256 || len(pages[1].Items) != 256 {
		t.Errorf("600 items without an end are on %d pages, want 3", len(pages))
	}
}

func TestDecodePageErrors(t *testing.T) {
	const digest = `"digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"`
	item := func(name string) string {
		return `{"version":"v1","kind":"ConfigMap","name":"` + name + `",` + digest + `}`
	}
	page := func(items ...string) string { return `{"format":1,"items":[` + strings.Join(items, ",") + `]}` }
	if _, err := snapshot.DecodePage([]byte(page(item("a"), item("b")))); err != nil {
		t.Fatalf("a good page: %v", err)
	}
	tests := []struct{ name, body, want string }{
		{"not JSON", `x`, "invalid character"},
		{"format 0", `{"items":[]}`, "has no format"},
		{"unknown field", `{"format":1,"items":[],"more":1}`, `unknown field "more"`},
		{"unknown field of an item", page(`{"x":1}`), `unknown field "x"`},
		{"no items", page(), "there are 0"},
		{"too many items", page(slices.Repeat([]string{item("a")}, 257)...), "there are 257"},
		{"out of order", page(item("b"), item("a")), "ConfigMap.v1 a must not come after ConfigMap.v1 b"},
		{"twice", page(item("a"), item("a")), "must not come after"},
		{"no name", page(item("")), "metadata.name is missing"},
		{"no digest", page(`{"version":"v1","kind":"ConfigMap","name":"a","digest":"AA"}`), "digest must be"},
		{"capital digest", strings.ReplaceAll(page(item("a")), "aaaa", "AAAA"), "digest must be"},
		{"more", page(item("a")) + `{}`, "behind its end"},
		{"white space", " " + page(item("a")), "not in the form"},
		{"capital letters", strings.Replace(page(item("a")), "items", "Items", 1), "not in the form"},
		{"repeated field", strings.Replace(page(item("a")), `"format":1`, `"format":1,"format":1`, 1), "not in the form"},
		{"empty field", strings.Replace(page(item("a")), `{"version"`, `{"group":"","version"`, 1), "not in the form"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := snapshot.DecodePage([]byte(tt.body)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestDecodeRootErrors(t *testing.T) {
	digest := strings.Repeat("a", 64)
	const unnamed = `{"version":"v1","kind":"ConfigMap","name":"","generateName":"a-","envelope":{"version":"v1","kind":"ResourceEnvelope","name":"e"}}`
	const unplaced = `{"version":"v1","kind":"ConfigMap","name":"a","reason":"Duplicated","envelope":{"version":"v1","kind":"ResourceEnvelope","name":"e"},` +
		`"first":{"version":"v1","kind":"ResourceEnvelope","name":"d"}}`
	tests := []struct{ name, body, want string }{
		{"not JSON", ``, "unexpected end"},
		{"unknown field", `{"format":1,"objects":0,"pages":[],"more":1}`, "unknown field"},
		{"too many objects", `{"format":1,"objects":257,"pages":["` + digest + `"]}`, "objects: 257 cannot be on 1 pages, want 1 to 256"},
		{"too few objects", `{"format":1,"objects":0,"pages":["` + digest + `"]}`, "objects: 0"},
		{"negative", `{"format":1,"objects":-1,"pages":[]}`, "objects: -1"},
		{"no digest", `{"format":1,"objects":1,"pages":["../etc"]}`, "pages[0] must be"},
		{"null", `{"format":1,"objects":0,"pages":null}`, "not in the form"},
		{"missing", `{"format":1,"objects":0}`, "not in the form"},
		{"unnamed in the first format", `{"format":1,"objects":0,"pages":[],"unnamed":[` + unnamed + `]}`, "unnamed: there are 1 in format 1"},
		{"no unnamed in the second", `{"format":2,"objects":0,"pages":[]}`, "unnamed: there are 0 in format 2"},
		{"unnamed with a name", `{"format":2,"objects":0,"pages":[],"unnamed":[` + strings.Replace(unnamed, `"name":""`, `"name":"a"`, 1) + `]}`, "unnamed[0]: must have"},
		{"a reason in the second", `{"format":2,"objects":0,"pages":[],"unnamed":[` + unplaced + `]}`, "unnamed: there are 1 in format 2"},
		{"no reason in the third", `{"format":3,"objects":0,"pages":[],"unnamed":[` + unnamed + `]}`, "unnamed: there are 1 in format 3"},
		{"an unknown reason", `{"format":3,"objects":0,"pages":[],"unnamed":[` + strings.Replace(unplaced, "Duplicated", "Because", 1) + `]}`, "unnamed[0]: must have"},
		{"a duplicate without a name", `{"format":3,"objects":0,"pages":[],"unnamed":[` + strings.Replace(unplaced, `"name":"a"`, `"name":""`, 1) + `]}`, "unnamed[0]: must have"},
		{"the first of a wrong scope", `{"format":3,"objects":0,"pages":[],"unnamed":[` + strings.Replace(unplaced, "Duplicated", "WrongScope", 1) + `]}`, "unnamed[0]: must have"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := snapshot.DecodeRoot([]byte(tt.body)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

// A record of a newer version is refused as such, whatever its other content.
func TestNewerFormat(t *testing.T) {
	body := []byte(`{"format":4,"items":{"packed":"..."},"pages":7}`)
	_, pageErr := snapshot.DecodePage(body)
	_, rootErr := snapshot.DecodeRoot(body)
	for want, err := range map[versioned.FormatError]error{
		{Record: "snapshot page", Have: 4, Want: 1}: pageErr,
		{Record: "snapshot root", Have: 4, Want: 3}: rootErr,
	} {
		var format *versioned.FormatError
		if !errors.As(err, &format) || *format != want {
			t.Errorf("error %v, want %v", err, &want)
		}
	}
}

// TestT5TamperedContent flips every bit of a root, its page and its bodies: each
// is found before anything is decoded, and no page or root that still decodes has
// the digest of the original.
func TestT5TamperedContent(t *testing.T) {
	set := mustSet(t, ordered()...)
	page := set.Pages()[0]
	page1, root := page.Encode(), set.Root().Encode()
	flips := flipAll(t, root, set.Digest) + flipAll(t, page1, page.Digest)
	for i, body := range set.Bodies {
		flips += flipAll(t, body, set.Items[i].Digest)
	}
	if flips < 10_000/everyBit {
		t.Errorf("only %d flips", flips)
	}
	for _, changed := range flipped(page1) {
		if p, err := snapshot.DecodePage(changed); err == nil && p.Digest == page.Digest {
			t.Fatalf("a changed page passes as %s", p.Digest)
		}
	}
	for _, changed := range flipped(root) {
		if r, err := snapshot.DecodeRoot(changed); err == nil && snapshot.Digest(r.Encode()) == set.Digest {
			t.Fatal("a changed root passes")
		}
	}
}

// flipped yields body with each of its bits flipped, one at a time, and the number of the bit.
// With the race detector, which takes half a minute, it yields every seventh bit.
func flipped(body []byte) func(func(int, []byte) bool) {
	return func(yield func(int, []byte) bool) {
		changed := slices.Clone(body)
		for bit := 0; bit < 8*len(body); bit += everyBit {
			changed[bit/8] ^= 1 << (bit % 8)
			if !yield(bit, changed) {
				return
			}
			changed[bit/8] ^= 1 << (bit % 8)
		}
	}
}

func flipAll(t *testing.T, body []byte, digest string) int {
	t.Helper()
	if err := snapshot.Verify(body, digest); err != nil {
		t.Fatal(err)
	}
	n := 0
	for bit, changed := range flipped(body) {
		n++
		var wrong *snapshot.DigestError
		if err := snapshot.Verify(changed, digest); !errors.As(err, &wrong) || wrong.Want != digest || wrong.Got == digest {
			t.Fatalf("bit %d: error %v, want a DigestError", bit, err)
		}
	}
	return n
}

func FuzzDecodePage(f *testing.F) {
	f.Add(mustSet(f, many(3)...).Pages()[0].Encode())
	f.Add([]byte(`{"format":2}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if p, err := snapshot.DecodePage(body); err == nil && !bytes.Equal(p.Encode(), body) {
			t.Fatalf("%q is read as %q", body, p.Encode())
		}
	})
}
