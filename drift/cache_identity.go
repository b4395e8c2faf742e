package drift

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/slipway-dev/slipway/drift/internal/value"
	"github.com/slipway-dev/slipway/drift/schema"
)

// appendOptions appends all options but the schemas, of which one type counts.
func appendOptions(b []byte, o Options) []byte {
	for _, text := range [...]string{string(o.Comparison), o.Manager, string(o.SecretKey)} {
		b = strconv.AppendQuote(b, text)
	}
	if len(o.Ignore)+len(o.Secrets) > 0 {
		// Texts, and structs of texts, can always be encoded.
		text, _ := json.Marshal([]any{o.Ignore, o.Secrets})
		b = append(b, text...)
	}
	b = strconv.AppendBool(b, o.Status)
	b = strconv.AppendInt(append(b, ','), int64(o.MaxDifferences), 10)
	return strconv.AppendInt(append(b, ','), int64(o.MaxValueBytes), 10)
}

// typeWriter writes all that is reached from a type, each type once.
type typeWriter struct {
	out  []byte
	seen map[*schema.Type]int
}

func (w *typeWriter) typ(t *schema.Type) {
	if t == nil {
		w.out = append(w.out, '-')
		return
	}
	if i, ok := w.seen[t]; ok {
		w.out = append(strconv.AppendInt(append(w.out, '#'), int64(i), 10), ';')
		return
	}
	if w.seen == nil {
		w.seen = make(map[*schema.Type]int)
	}
	w.seen[t] = len(w.seen)
	w.out = append(w.out, '{', 'a'+byte(t.Kind), 'a'+byte(t.List))
	w.flags(t.Open, t.Embedded, t.Whole, t.Ordered, t.Unordered, t.Nullable)
	for _, u := range t.Union {
		w.out = strconv.AppendQuote(w.out, u)
	}
	for _, k := range t.Keys {
		w.out = strconv.AppendQuote(append(w.out, 'k'), k.Name)
		w.out = value.AppendCanonical(w.out, k.Default)
	}
	for _, name := range slices.Sorted(maps.Keys(t.Fields)) {
		w.field(name, t.Fields[name])
	}
	w.typ(t.Elem)
	w.out = append(w.out, '}')
}

func (w *typeWriter) field(name string, f *schema.Field) {
	w.out = strconv.AppendQuote(append(w.out, 'f'), name)
	if f == nil {
		return
	}
	w.flags(f.Presence, f.Unset, f.ServerOwned, f.Immutable, f.Sealed, f.Secret)
	w.out = strconv.AppendInt(w.out, int64(f.Derive), 10)
	w.out = value.AppendCanonical(w.out, f.Default)
	w.typ(f.Type)
}

func (w *typeWriter) flags(all ...bool) {
	for _, f := range all {
		b := byte('0')
		if f {
			b = '1'
		}
		w.out = append(w.out, b)
	}
}
