package drift

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/slipway-dev/slipway/drift/schema"
)

const (
	// redactedText stands for a secret value.
	redactedText = "(redacted)"
	// lastApplied is kubectl's annotation, a copy of a whole object as text.
	lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
)

// secrets knows what must not be shown, besides what the schema says.
type secrets struct {
	patterns []pattern
	key      []byte
}

// role is what a map is to a Secret.
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

// spot is a place in an object, with what is known there of secrets.
type spot struct {
	rest []pattern
	typ  *schema.Type
	role role
}

// root returns the spot of a whole object.
func (s *secrets) root(t *schema.Type, objects ...any) spot {
	return spot{rest: s.patterns, typ: t, role: roleOf(noSecret, "", objects...)}
}

// below returns the spot that a step leads to, and whether all that is there is
// secret. hub and member are the values there.
func (p spot) below(s step, hub, member any) (spot, bool) {
	secret := p.role == secretValues
	next := spot{role: noSecret}
	if s.item {
		next.typ = elemOf(p.typ)
	} else {
		var f *schema.Field
		f, next.typ = describeField(p.typ, s.name)
		next.role = roleOf(p.role, s.name, hub, member)
		// The names of what a Secret holds are not secret.
		secret = secret || f != nil && f.Secret && next.role != secretValues || s.name == lastApplied ||
			p.role == secretMetadata && s.name == "managedFields"
	}
	if next.role == noSecret {
		next.role = roleOf(noSecret, "", hub, member)
	}
	for _, rest := range p.rest {
		if len(rest) == 0 || !rest[0].matchesEither(s, hub, member) {
			continue
		}
		secret = secret || len(rest) == 1
		next.rest = append(next.rest, rest[1:])
	}
	return next, secret
}

func elemOf(t *schema.Type) *schema.Type {
	if t == nil {
		return nil
	}
	return t.Elem
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

// roleInSecret returns the role of a field of a Secret. What is none of its
// fields may be a misspelt one.
func roleInSecret(name string) role {
	switch name {
	case "metadata":
		return secretMetadata
	case "apiVersion", "kind", "type", "immutable":
		return noSecret
	}
	return secretValues
}

// isSecret tells whether a value is a whole Secret, which may be in another object.
func isSecret(v any) bool {
	m, ok := v.(map[string]any)
	return ok && m["kind"] == "Secret" && m["apiVersion"] == "v1"
}

// tag returns what is shown of a secret value.
func (s *secrets) tag(v any) string {
	if len(s.key) == 0 {
		return redactedText
	}
	mac := hmac.New(sha256.New, s.key)
	if text, ok := v.(string); ok {
		mac.Write([]byte(text))
	} else {
		mac.Write(appendDigestible(nil, v))
	}
	return "(redacted " + hex.EncodeToString(mac.Sum(nil)[:4]) + ")"
}

// clean returns a value without what is secret inside of it. The value itself is
// not changed.
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
		next, secret := p.below(step{name: name}, v, v)
		out[name] = s.cleanOr(v, next, secret)
	}
	return out
}

func (s *secrets) cleanList(l []any, p spot) any {
	out := make([]any, len(l))
	for i, v := range l {
		next, secret := p.below(step{item: true, hub: i, member: i}, v, v)
		out[i] = s.cleanOr(v, next, secret)
	}
	return out
}

// cleanOr returns the tag of what is wholly secret, and anything else clean.
func (s *secrets) cleanOr(v any, p spot, secret bool) any {
	if secret && v != nil {
		return s.tag(v)
	}
	return s.clean(v, p)
}

// redacted returns a difference as it may be shown. What is inside of something
// secret becomes one difference of that.
func (p *pass) redacted(f found, t trail) found {
	s := &p.o.secrets
	at := s.root(p.m.typ, p.m.hub, p.live)
	secret := false
	for i, l := range t {
		at, secret = at.below(l.step, l.inHub, l.inMember)
		if keys, changed := s.cleanKeys(l.keys, at, secret); changed {
			f.path = slices.Clone(f.path)
			f.path[i].keys = keys
		}
		if secret && i < len(t)-1 {
			return p.collapsed(f, t[:i+1])
		}
	}
	secret = secret || f.secret || f.field != nil && f.field.Secret
	if at.role == secretValues && !hasPlain(f) {
		secret = false
	}
	f.secret = f.secret || secret
	return s.cleanFound(f, at, secret)
}

// hasPlain tells whether a value of a difference is no map.
func hasPlain(f found) bool {
	for _, v := range []any{f.hub, f.member} {
		if _, ok := v.(map[string]any); v != nil && !ok {
			return true
		}
	}
	return false
}

func (s *secrets) cleanFound(f found, at spot, secret bool) found {
	f.hub, f.member = s.cleanOr(f.hub, at, secret), s.cleanOr(f.member, at, secret)
	return f
}

// cleanKeys returns the keys of an item without those that are secret, and
// whether there are any.
func (s *secrets) cleanKeys(keys []keyValue, item spot, secret bool) (out []keyValue, changed bool) {
	for i, k := range keys {
		hidden := secret
		if !hidden && k.name != "" {
			_, hidden = item.below(step{name: k.name}, k.value, k.value)
		}
		if !hidden {
			continue
		}
		if !changed {
			out, changed = slices.Clone(keys), true
		}
		out[i].value = s.tag(k.value)
	}
	return out, changed
}

// collapsed is a difference inside of a secret as one of the secret as a whole.
func (p *pass) collapsed(f found, t trail) found {
	end := t[len(t)-1]
	f.path = f.path[:len(t)]
	f.secret, f.note = true, ""
	if end.inHub != nil {
		f.hub, f.inHub = end.inHub, true
	}
	if end.inMember != nil {
		f.member, f.inMember = end.inMember, true
	}
	if f.inHub && f.inMember {
		f.class = Changed
	}
	return p.o.secrets.cleanFound(f, spot{}, true)
}
