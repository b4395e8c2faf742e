package drift

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/slipway-dev/slipway/drift/internal/compare"
	"github.com/slipway-dev/slipway/drift/internal/fieldpath"
	"github.com/slipway-dev/slipway/drift/internal/kinds"
	"github.com/slipway-dev/slipway/drift/internal/ownership"
	"github.com/slipway-dev/slipway/drift/internal/value"
	"github.com/slipway-dev/slipway/drift/schema"
)

const (
	// maxCached is the maximum number of sets of applied fields that a manifest remembers. The
	// members of a fleet have one, and another while a change is on its way.
	maxCached = 8
	// maxLastApplied is the maximum length of the annotation; servers allow 256 KiB for all
	// annotations of an object.
	maxLastApplied = 1 << 20
)

// staleness finds stale fields. It caches the results for earlier members, and may be used by any
// number of goroutines.
type staleness struct {
	tree    *compare.Tree
	manager string
	// kept are appliers whose fields the manager does not take over.
	kept   []string
	status bool

	mu   sync.RWMutex
	seen []appliedFields
	// hub is the hub's object with the defaults of keys, made when it is needed.
	hub  map[string]any
	once sync.Once
}

// find returns the fields that were applied, that the hub's object no longer has, and that the
// member still has. The applied fields are in the manager's entry in managedFields or, without
// such an entry, in kubectl's annotation.
func (s *staleness) find(member map[string]any) []*compare.Finding {
	meta := metadataOf(member)
	managed, _ := meta["managedFields"].([]any)
	if slices.ContainsFunc(managed, s.unapplied) {
		managed, _ = ownership.TakeOver(managed, s.manager, s.kept)
	}
	applied := false
	var owners *ownership.Fields
	var all []*compare.Finding
	if s.manager != "" && len(managed) > 0 {
		for fields := range ownership.AppliedFields(managed, s.manager) {
			applied = true
			if d := s.dropped(fields); !d.Empty() {
				if owners == nil {
					alone, _ := ownership.TakeOver(managed, s.manager, s.kept)
					owners, _ = ownership.Parse(alone)
				}
				all = s.appendDropped(all, d, owners, member)
			}
		}
	}
	if applied {
		return all
	}
	annotations, _ := meta["annotations"].(map[string]any)
	if text, ok := annotations[lastApplied].(string); ok && len(text) <= maxLastApplied {
		return s.lastApplied(text, member)
	}
	return nil
}

// unapplied reports whether an entry of managedFields has fields that the manager wrote without
// an apply.
func (s *staleness) unapplied(entry any) bool {
	e, _ := entry.(map[string]any)
	return s.manager != "" && e["manager"] == s.manager && e["operation"] != ownership.Apply
}

func managedFields(object any) []any {
	managed, _ := metadataOf(object)["managedFields"].([]any)
	return managed
}

func metadataOf(object any) map[string]any {
	o, _ := object.(map[string]any)
	meta, _ := o["metadata"].(map[string]any)
	return meta
}

type appliedFields struct {
	fields  map[string]any
	dropped ownership.Dropped
}

// dropped returns the applied fields that the hub's object lacks. Unreadable fields drop nothing.
func (s *staleness) dropped(fields map[string]any) ownership.Dropped {
	if d, ok := s.known(fields); ok {
		return d
	}
	s.once.Do(func() { s.hub, _ = withKeys(s.tree.Hub, s.tree.Type).(map[string]any) })
	d, err := ownership.Without(fields, s.hub)
	if err != nil {
		return ownership.Dropped{}
	}
	if left := value.MaxNodes; !value.Measure(fields, value.MaxDepth, &left) {
		return d
	}
	own, _ := value.Copy(fields).(map[string]any)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.seen) == maxCached {
		s.seen = s.seen[1:]
	}
	s.seen = append(slices.Clip(s.seen), appliedFields{own, d})
	return d
}

func (s *staleness) known(fields map[string]any) (ownership.Dropped, bool) {
	s.mu.RLock()
	seen := s.seen
	s.mu.RUnlock()
	for i := range seen {
		if ownership.Same(seen[i].fields, fields) {
			return seen[i].dropped, true
		}
	}
	return ownership.Dropped{}, false
}

// withKeys returns a value in which the items of keyed lists have all their keys.
func withKeys(v any, t *schema.Type) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, e := range v {
			_, typ := value.FieldOf(t, name)
			out[name] = withKeys(e, typ)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = withKeys(e, value.ElemOf(t))
			addKeys(out[i], t)
		}
		return out
	}
	return v
}

func addKeys(item any, t *schema.Type) {
	m, ok := item.(map[string]any)
	if !ok || t == nil || t.List != schema.Keyed {
		return
	}
	for i := range t.Keys {
		if v := value.KeyOf(m, t, &t.Keys[i]); v != nil {
			m[t.Keys[i].Name] = v
		}
	}
}

func (s *staleness) appendDropped(all []*compare.Finding, d ownership.Dropped, owners *ownership.Fields, member map[string]any) []*compare.Finding {
	for _, path := range owners.Stale(d, s.manager, member, splits) {
		f := &compare.Finding{Class: compare.Stale, Member: path[len(path)-1].Value, InMember: true}
		t, parent := s.tree.Type, any(member)
		for i, step := range path {
			if i > 0 {
				parent = path[i-1].Value
			}
			next := fieldpath.Step{Name: step.Name}
			if step.Item {
				next = fieldpath.Step{Item: true, Hub: -1, Member: step.Index, Keys: itemKeys(step, t)}
				t, f.Field = value.ElemOf(t), nil
			} else {
				f.Field, t = value.FieldOf(t, step.Name)
			}
			f.Path = append(f.Path, next)
		}
		if s.compared(f.Path) && !comesBack(f, t, parent) {
			all = append(all, f)
		}
	}
	return all
}

// comesBack reports whether a server would put a field back if it were taken away:
// then it is as the hub's object has it.
func comesBack(f *compare.Finding, t *schema.Type, parent any) bool {
	if f.Field == nil {
		return false
	}
	p, _ := parent.(map[string]any)
	d, ok := f.Field.DefaultIn(p)
	return ok && value.Equal(d, f.Member, t) || value.IsUnset(f.Member, f.Field) || value.Hollow(f.Member, f.Field, t, value.MaxDepth)
}

// splits reports whether the keys of a map are reported one by one: some labels and
// annotations belong to servers.
func splits(path []ownership.Step) bool {
	return path[0].Name == "metadata" && len(path) < 3
}

// itemKeys returns the keys of an item as the schema orders them, or else as the
// member's server names them.
func itemKeys(s ownership.Step, list *schema.Type) []value.KeyValue {
	if list != nil && list.List != schema.Atomic {
		return value.KeysOf(s.Value, list)
	}
	var keys []value.KeyValue
	for _, k := range s.Keys {
		keys = append(keys, value.KeyValue{Name: k.Name, Value: k.Value})
	}
	return keys
}

// compared reports whether a path belongs to the compared parts of an object.
func (s *staleness) compared(path []fieldpath.Step) bool {
	switch path[0].Name {
	case "metadata":
		if len(path) < 3 || !kinds.IsComparedMetadata(path[1].Name) {
			return false
		}
		return path[1].Name == "finalizers" || !kinds.IsSystemKey(path[2].Name)
	case "apiVersion", "kind":
		return false
	case "status":
		return s.status
	case "rules":
		return !s.tree.Rules.Has(kinds.Aggregated)
	}
	return true
}

// lastApplied compares kubectl's annotation with the hub's object and the
// member's, as kubectl's own merge does: keys of maps, and items with keys.
func (s *staleness) lastApplied(text string, member map[string]any) []*compare.Finding {
	var applied map[string]any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&applied); err != nil {
		return nil
	}
	if s.tree.Rules.Has(kinds.SecretData) {
		kinds.FoldStringData(applied)
	}
	w := threeWay{s: s}
	w.object(applied, s.tree.Hub, member, s.tree.Type, nil)
	return w.found
}

// threeWay finds values that were applied, are no longer on the hub, and are still on the member.
// It goes no deeper than the hub's object.
type threeWay struct {
	s     *staleness
	found []*compare.Finding
}

func (w *threeWay) object(applied, hub, member map[string]any, t *schema.Type, path []fieldpath.Step) {
	for _, name := range value.SortedKeys(applied) {
		live, ok := member[name]
		if !ok || live == nil || applied[name] == nil {
			continue
		}
		f, typ := value.FieldOf(t, name)
		here := append(slices.Clip(path), fieldpath.Step{Name: name})
		if keyByKey(here) {
			typ = metadataType(name, typ)
		} else if hub[name] == nil {
			stale := &compare.Finding{Class: compare.Stale, Path: here, Member: live, InMember: true, Field: f}
			if !comesBack(stale, typ, member) {
				w.keep(stale)
			}
			continue
		}
		w.value(applied[name], hub[name], live, typ, here)
	}
}

// keyByKey reports whether a field is compared even if the hub lacks it, because parts of it
// belong to servers.
func keyByKey(path []fieldpath.Step) bool { return path[0].Name == "metadata" && len(path) < 3 }

// metadataType is the type of a field of the metadata, known or not.
func metadataType(name string, t *schema.Type) *schema.Type {
	if name == "finalizers" {
		return &schema.Type{Kind: schema.List, List: schema.Set}
	}
	return t
}

func (w *threeWay) keep(f *compare.Finding) {
	if w.s.compared(f.Path) {
		w.found = append(w.found, f)
	}
}

func (w *threeWay) value(applied, hub, live any, t *schema.Type, path []fieldpath.Step) {
	switch applied := applied.(type) {
	case map[string]any:
		h, _ := hub.(map[string]any)
		l, ok := live.(map[string]any)
		if ok && (h != nil || hub == nil) {
			w.object(applied, h, l, t, path)
		}
	case []any:
		h, ok := hub.([]any)
		l, also := live.([]any)
		if (ok || hub == nil) && also && t != nil && t.List != schema.Atomic {
			w.list(applied, h, l, t, path)
		}
	}
}

func (w *threeWay) list(applied, hub, live []any, t *schema.Type, path []fieldpath.Step) {
	inHub, inLive := value.Positions(hub, t), value.Positions(live, t)
	seen := map[string]bool{}
	for _, item := range applied {
		key, ok := value.AppendKeys(nil, item, t)
		j, there := inLive[string(key)]
		if !ok || !there || seen[string(key)] {
			continue
		}
		seen[string(key)] = true
		i, kept := inHub[string(key)]
		s := fieldpath.Step{Item: true, Hub: -1, Member: j, Keys: value.KeysOf(live[j], t)}
		if !kept {
			w.keep(&compare.Finding{Class: compare.Stale, Path: append(slices.Clip(path), s), Member: live[j], InMember: true})
			continue
		}
		s.Hub = i
		w.value(item, hub[i], live[j], t.Elem, append(slices.Clip(path), s))
	}
}
