package schema

import (
	_ "embed"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

//go:generate go run ./internal/generate

//go:embed builtin.txt
var builtinText string

// builtin is the only table of the process. It caches parsed types, because Builtin may be called
// for each compared object.
var builtin = &table{text: builtinText} //nolint:gochecknoglobals // a cache of embedded data, which never changes

// Builtin returns the types of the kinds of k8s.io/api, of CustomResourceDefinition and of
// APIService. They are compiled into the program; a kind is parsed on first use, and cached.
func Builtin() Source { return builtin }

// table is a text of types in blocks that are sorted by name and parted by empty lines:
//
//	core/v1.ContainerPort
//	 containerPort number
//	 protocol string default="TCP"
//
// A block begins with its name and flags (kind, whole, open, union=a,b); a line for each field
// has its name, its type and flags. A type is a word (string, number, boolean, quantity,
// intorstring, duration, time, bytes, any), map[T], list[T], set[T], keyed(name,…)[T], or the
// name of a block, without its package if that is the same, with a * if {} differs from absent.
type table struct {
	text string

	once   sync.Once
	blocks []string

	kinds sync.Map // of *Type by schema.GroupVersionKind

	mu    sync.Mutex
	types map[string]*Type // complete ones, by name
}

// Type implements [Source].
func (t *table) Type(kind schema.GroupVersionKind) *Type {
	if known, ok := t.kinds.Load(kind); ok {
		return known.(*Type)
	}
	name, ok := t.kindName(kind)
	if !ok {
		return nil
	}
	compiled := t.named(name)
	t.kinds.Store(kind, compiled)
	return compiled
}

// kindName returns the name of the block of a kind.
func (t *table) kindName(kind schema.GroupVersionKind) (string, bool) {
	_, rest, ok := strings.Cut(t.load()[0], "\n# group \""+kind.Group+"\" ")
	if !ok {
		return "", false
	}
	dir, _, _ := strings.Cut(rest, "\n")
	name := dir + "/" + kind.Version + "." + kind.Kind
	head, _, _ := strings.Cut(t.block(name), "\n")
	return name, strings.HasPrefix(head, name+" kind")
}

// load returns the blocks. The first one has the comments at the top, which name the groups and
// sort before any name.
func (t *table) load() []string {
	t.once.Do(func() { t.blocks = strings.Split(strings.TrimSuffix(t.text, "\n"), "\n\n") })
	return t.blocks
}

// block returns the text of a block, which is empty if there is none.
func (t *table) block(name string) string {
	blocks := t.load()
	i, ok := slices.BinarySearchFunc(blocks, name, func(block, name string) int {
		return strings.Compare(blockName(block), name)
	})
	if !ok {
		return ""
	}
	return blocks[i]
}

func blockName(block string) string {
	head, _, _ := strings.Cut(block, "\n")
	name, _, _ := strings.Cut(head, " ")
	return name
}

// named returns the type of a block and of all blocks to which it refers.
func (t *table) named(name string) *Type {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.types[name]; known != nil {
		return known
	}
	r := &reader{table: t, fresh: map[string]*Type{}}
	found := r.named(name)
	r.finish()
	if t.types == nil {
		t.types = map[string]*Type{}
	}
	maps.Copy(t.types, r.fresh)
	return found
}
