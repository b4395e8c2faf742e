package drift

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/slipway-dev/slipway/drift/internal/compare"
	"github.com/slipway-dev/slipway/drift/internal/fieldpath"
	"github.com/slipway-dev/slipway/drift/internal/value"
	"github.com/slipway-dev/slipway/drift/schema"
)

const (
	// redactedText stands for a secret value.
	redactedText = "(redacted)"
	// lastApplied is kubectl's annotation, a copy of a whole object as text.
	lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
)

// secrets names the values that must not be shown, in addition to those in the schema.
type secrets struct {
	patterns []fieldpath.Pattern
	key      []byte
}

// role is the part of a Secret that a map is.
type role uint8

const (
	noSecret role = iota
	// aSecret is a Secret itself, anywhere.
	aSecret
	// secretMetadata is its metadata.
	secretMetadata
	// secretValues has only values that are secret, under names that are not.
	secretValues
)

// spot is a place in an object, with the knowledge about secrets there.
type spot struct {
	rest []fieldpath.Pattern
	typ  *schema.Type
	role role
}

// root returns the spot of a whole object.
func (s *secrets) root(t *schema.Type, objects ...any) spot {
	return spot{rest: s.patterns, typ: t, role: roleOf(noSecret, "", objects...)}
}

// below returns the spot that a step leads to, and whether all that is there is
// secret. hub and member are the values there.
func (p spot) below(s fieldpath.Step, hub, member any) (spot, bool) {
	secret := p.role == secretValues
	next := spot{role: noSecret}
	if s.Item {
		next.typ = value.ElemOf(p.typ)
	} else {
		var f *schema.Field
		f, next.typ = value.FieldOf(p.typ, s.Name)
		next.role = roleOf(p.role, s.Name, hub, member)
		// The names of a Secret's entries are not secret.
		secret = secret || f != nil && f.Secret && next.role != secretValues || s.Name == lastApplied ||
			p.role == secretMetadata && s.Name == "managedFields"
	}
	if next.role == noSecret {
		next.role = roleOf(noSecret, "", hub, member)
	}
	for _, rest := range p.rest {
		if len(rest) == 0 || !rest[0].MatchesEither(s, hub, member) {
			continue
		}
		secret = secret || len(rest) == 1
		next.rest = append(next.rest, rest[1:])
	}
	return next, secret
}

// roleOf returns the role of a field of a map, or of a map that stands alone.
func roleOf(parent role, name string, values ...any) role {
	switch {
	case parent == aSecret:
		return roleInSecret(name)
	case parent == secretMetadata && name == "annotations":
		return secretValues
	case slices.ContainsFunc(values, isSecret):
		return aSecret
	}
	return noSecret
}

// roleInSecret returns the role of a field of a Secret. An unknown field may be a misspelt one.
func roleInSecret(name string) role {
	switch name {
	case "metadata":
		return secretMetadata
	case "apiVersion", "kind", "type", "immutable":
		return noSecret
	}
	return secretValues
}

// isSecret reports whether a value is a whole Secret, which may be in another object.
func isSecret(v any) bool {
	m, ok := v.(map[string]any)
	return ok && m["kind"] == "Secret" && m["apiVersion"] == "v1"
}

// tag returns the text that replaces a secret value.
func (s *secrets) tag(v any) string {
	if len(s.key) == 0 {
		return redactedText
	}
	mac := hmac.New(sha256.New, s.key)
	if text, ok := v.(string); ok {
		mac.Write([]byte(text))
	} else {
		mac.Write(value.AppendCanonical(nil, v))
	}
	return "(redacted " + hex.EncodeToString(mac.Sum(nil)[:4]) + ")"
}

// clean returns a copy of a value with all secrets inside of it replaced. It does not
// change the value.
func (s *secrets) clean(v any, p spot) any {
	switch v := v.(type) {
	case map[string]any:
		return s.cleanMap(v, p)
	case []any:
		if p.role == secretValues {
			return s.tag(v)
		}
		return s.cleanList(v, p)
	case nil:
		return nil
	}
	if p.role == secretValues {
		return s.tag(v)
	}
	return v
}

func (s *secrets) cleanMap(m map[string]any, p spot) any {
	out := make(map[string]any, len(m))
	for name, v := range m {
		next, secret := p.below(fieldpath.Step{Name: name}, v, v)
		out[name] = s.cleanOr(v, next, secret)
	}
	return out
}

func (s *secrets) cleanList(l []any, p spot) any {
	out := make([]any, len(l))
	for i, v := range l {
		next, secret := p.below(fieldpath.Step{Item: true, Hub: i, Member: i}, v, v)
		out[i] = s.cleanOr(v, next, secret)
	}
	return out
}

// cleanOr returns the tag of a secret value. For any other value it returns the result of clean.
func (s *secrets) cleanOr(v any, p spot, secret bool) any {
	if secret && v != nil {
		return s.tag(v)
	}
	return s.clean(v, p)
}

// redacted returns a difference without secrets. A difference inside of a secret value
// becomes a difference of the whole value.
func (s *secrets) redacted(f compare.Finding, t fieldpath.Trail, tree *compare.Tree, member any) compare.Finding {
	at := s.root(tree.Type, tree.Hub, member)
	secret := false
	for i, l := range t {
		at, secret = at.below(l.Step, l.InHub, l.InMember)
		if keys, changed := s.cleanKeys(l.Keys, at, secret); changed {
			f.Path = slices.Clone(f.Path)
			f.Path[i].Keys = keys
		}
		if secret && i < len(t)-1 {
			return s.collapsed(f, t[:i+1])
		}
	}
	secret = secret || f.Secret || f.Field != nil && f.Field.Secret
	if at.role == secretValues && !hasPlain(f) {
		secret = false
	}
	f.Secret = f.Secret || secret
	return s.cleanFound(f, at, secret)
}

// hasPlain reports whether a value of a difference is no map.
func hasPlain(f compare.Finding) bool {
	for _, v := range []any{f.Hub, f.Member} {
		if _, ok := v.(map[string]any); v != nil && !ok {
			return true
		}
	}
	return false
}

func (s *secrets) cleanFound(f compare.Finding, at spot, secret bool) compare.Finding {
	f.Hub, f.Member = s.cleanOr(f.Hub, at, secret), s.cleanOr(f.Member, at, secret)
	return f
}

// cleanKeys returns the keys of an item with secret values replaced by tags. It reports
// whether any key is secret; if not, out is nil.
func (s *secrets) cleanKeys(keys []value.KeyValue, item spot, secret bool) (out []value.KeyValue, changed bool) {
	for i, k := range keys {
		hidden := secret
		if !hidden && k.Name != "" {
			_, hidden = item.below(fieldpath.Step{Name: k.Name}, k.Value, k.Value)
		}
		if !hidden {
			continue
		}
		if !changed {
			out, changed = slices.Clone(keys), true
		}
		out[i].Value = s.tag(k.Value)
	}
	return out, changed
}

// collapsed is a difference inside of a secret as one of the secret as a whole.
func (s *secrets) collapsed(f compare.Finding, t fieldpath.Trail) compare.Finding {
	end := t[len(t)-1]
	f.Path = f.Path[:len(t)]
	f.Secret, f.Note = true, ""
	if f.Whole >= len(t) {
		f.Whole = 0
	}
	if end.InHub != nil {
		f.Hub, f.InHub = end.InHub, true
	}
	if end.InMember != nil {
		f.Member, f.InMember = end.InMember, true
	}
	if f.InHub && f.InMember {
		f.Class = compare.Changed
	}
	return s.cleanFound(f, spot{}, true)
}
