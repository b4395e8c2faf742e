package kubefleet

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

// maxName is the longest name that the engine takes.
const maxName = 63

// EngineName returns the engine's name for an object of the hub. namespace is empty for a
// cluster-scoped object. The engine has one set of names for all objects, and for Applications:
//
//	name                 cluster-scoped and without a dot
//	c.<name>             cluster-scoped and with a dot
//	n.<namespace>.<name> in a namespace
//	a.<namespace>.<name> an Application, by ApplicationName
//	h.<cut>.<hash>       any of these that is longer than 63 characters
//
// Two objects have the same engine name only if they have the same namespace and the same name: a
// namespace has no dot, and the hash is the first 130 bits of the sha256 of the uncut name. If
// namespace is a DNS label and name a DNS subdomain, the result is a DNS subdomain of at most 63
// characters.
func EngineName(namespace, name string) string {
	switch {
	case namespace != "":
		name = "n." + namespace + "." + name
	case strings.Contains(name, "."):
		name = "c." + name
	}
	return cutName(name)
}

// ApplicationName returns the engine's name for the parts of an Application of core.oam.dev. No
// other object has such a name, and [ObjectName] does not accept it.
func ApplicationName(namespace, name string) string { return cutName("a." + namespace + "." + name) }

// cutName shortens a name that is too long. It keeps the beginning for people and adds a hash.
func cutName(name string) string {
	if len(name) <= maxName {
		return name
	}
	const hashed = 26
	sum := sha256.Sum256([]byte(name))
	hash := strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:]))[:hashed]
	cut := strings.TrimRight(name[:maxName-hashed-len("h..")], ".-")
	return "h." + cut + "." + hash
}

// IsCut reports whether a name from [EngineName] was cut, so that [ObjectName] cannot reverse it.
func IsCut(engineName string) bool { return strings.HasPrefix(engineName, "h.") }

// ObjectName reverses [EngineName]: it returns the namespace and the name. ok is false if the name
// was cut, or if EngineName never returns such a name.
func ObjectName(engineName string) (namespace, name string, ok bool) {
	form, rest, dotted := strings.Cut(engineName, ".")
	switch {
	case !dotted:
		name = engineName
	case form == "c":
		name = rest
	case form == "n":
		namespace, name, _ = strings.Cut(rest, ".")
	}
	if name == "" || EngineName(namespace, name) != engineName {
		return "", "", false
	}
	return namespace, name, true
}
