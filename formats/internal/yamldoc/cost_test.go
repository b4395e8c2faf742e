package yamldoc_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
)

func repeated(s string, size int) string { return strings.Repeat(s, size/len(s)) }

// dense are inputs of a size that a parser makes much of.
var dense = map[string]func(size int) string{
	"marks of documents":   func(size int) string { return repeated("---\n", size) },
	"documents":            func(size int) string { return repeated("---\na\n", size) },
	"ends of documents":    func(size int) string { return repeated("a\n...\n", size) },
	"values":               func(size int) string { return "[" + repeated("1,", size) + "1]" },
	"items":                func(size int) string { return repeated("-\n", size) },
	"items of items":       func(size int) string { return repeated("- - - - -\n", size) },
	"objects":              func(size int) string { return "[" + repeated("{},", size) + "1]" },
	"keys":                 func(size int) string { return "{" + repeated("a,", size) + "1: 1}" },
	"pairs":                func(size int) string { return "[" + repeated("a: b,", size) + "1]" },
	"question marks":       func(size int) string { return repeated("?\n", size) },
	"comments behind keys": func(size int) string { return repeated("a: #\n", size) },
	"comments above items": func(size int) string { return repeated("#\n- \n", size) },
	"comments below items": func(size int) string { return repeated("- a\n  #\n", size) },
	"lists in lists":       func(size int) string { return repeated("[", size) },
	"anchors":              func(size int) string { return "[" + repeated("&a a,", size) + "1]" },
	"aliases":              func(size int) string { return "[&a 1," + repeated("*a,", size) + "1]" },
	"tags":                 func(size int) string { return "[" + repeated("!a b,", size) + "1]" },
	"directives":           func(size int) string { return repeated("%TAG !a! !b\n", size) },
	"text":                 func(size int) string { return "|\n" + repeated(" a\n", size) },
	"escapes":              func(size int) string { return "\"" + repeated("\\n", size) + "\"" },
	"UTF-16":               func(size int) string { return "\xff\xfe" + repeated("[\x00,\x00", size) },
}

// cost returns how many bytes reading a text allocates in all.
func cost(t *testing.T, text string) uint64 {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	docs, err := yamldoc.Read(strings.NewReader(text), "f")
	if err != nil {
		t.Fatal(err)
	}
	for d := range docs { // parsed on demand
		_ = d.OK()
	}
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A short input costs at most some hundred times its size, because a parser needs this for each
// value. A long input of the same density is refused at a few times its size.
func TestReadingCostsASmallMultipleOfTheInput(t *testing.T) {
	const short, factor, atMost = 1 << 17, 600, 10
	for name, of := range dense {
		t.Run(name, func(t *testing.T) {
			text := of(short)
			if n := cost(t, text); n > factor*uint64(len(text)) {
				t.Errorf("%d bytes allocate %d, %d times as much", len(text), n, n/uint64(len(text)))
			}
			if n := cost(t, text); name == "marks of documents" && n > atMost*uint64(len(text)) {
				t.Errorf("%d bytes without a value allocate %d, %d times as much", len(text), n, n/uint64(len(text)))
			}
			if name == "anchors" || name == "tags" { // their long inputs are read, not refused
				return
			}
			text = of(yamldoc.MaxBytes - 100)
			if n := cost(t, text); n > atMost*uint64(len(text)) {
				t.Errorf("%d bytes allocate %d, %d times as much", len(text), n, n/uint64(len(text)))
			}
		})
	}
}

func TestTheNumberOfDocumentsIsBounded(t *testing.T) {
	things, problems := read(t, strings.Repeat("---\nn: 1\n", yamldoc.MaxDocuments))
	if len(things) != yamldoc.MaxDocuments || len(problems) > 0 {
		t.Errorf("read %d documents: %v", len(things), problems)
	}
	things, problems = read(t, strings.Repeat("---\nn: 1\n", yamldoc.MaxDocuments+3))
	want := fmt.Sprintf("f:%d: is one document more than 10000, which an input has at most; write it as several", 2*yamldoc.MaxDocuments+1)
	if got := problems.Error(); len(things) != yamldoc.MaxDocuments || got != want {
		t.Errorf("read %d documents: %s, want %s", len(things), got, want)
	}
}

// An input of the maximum length that consists of small objects is read.
func TestALongInputIsRead(t *testing.T) {
	object := "- apiVersion: v1\n  kind: ConfigMap\n  metadata:\n    name: abcdefgh\n    namespace: shop\n  data:\n    key: value\n"
	docs, err := yamldoc.Read(strings.NewReader("kind: List\nitems:\n"+repeated(object, yamldoc.MaxBytes-100)), "f")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for d := range docs {
		n++
		if d.IsEmpty() {
			t.Errorf("it is not read: %s", d.Problems().Error())
		}
	}
	if n != 1 {
		t.Errorf("%d documents", n)
	}
}

// values counts the values of a tree, each key and each empty one too.
func values(n *yaml.Node) int {
	total := 1
	for _, child := range n.Content {
		total += values(child)
	}
	return total
}

// FuzzMarks: the count before parsing limits the size of the parsed input.
func FuzzMarks(f *testing.F) {
	for _, of := range dense {
		f.Add(of(40))
	}
	for _, text := range []string{"a", "- - - a", "? a", "?\ta", "-\ta", "{a b, c}", "[a: b]", "{? a : b}", "\"a\"", "a:\r  b:\r", "a:\u2028b:\u0085 c", "&a\n!!map\n*a : b", "---\ta\n", "-\r-\r-", "-\u2028-", "{\"a\":1}", "- ?\n- ?"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			return // UTF-16
		}
		docs, err := yamldoc.Read(strings.NewReader(text), "f")
		if err != nil {
			t.Fatal(err)
		}
		total := 0
		for d := range docs {
			if !d.IsEmpty() {
				total += values(d.Root().Node)
			}
		}
		if most := 3*yamldoc.Marks([]byte(text)) + 3; total > most {
			t.Errorf("%q has %d values, and by its marks at most %d", text, total, most)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	for _, name := range []string{"marks of documents", "documents", "items"} {
		for _, size := range []int{yamldoc.MaxBytes / 100, yamldoc.MaxBytes / 10, yamldoc.MaxBytes} {
			text := dense[name](size)
			b.Run(fmt.Sprintf("%s/bytes=%d", strings.ReplaceAll(name, " ", "-"), size), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					docs, err := yamldoc.Read(strings.NewReader(text), "f")
					if err != nil {
						b.Fatal(err)
					}
					for d := range docs {
						_ = d.OK()
					}
				}
			})
		}
	}
}
