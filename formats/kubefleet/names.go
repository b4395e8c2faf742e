package kubefleet

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

// maxName is the longest name that the engine takes.
const maxName = 63

// EngineName returns the name under which the engine knows an object of the
// hub, given its namespace, which is empty for one that is cluster-scoped. The
// engine has one set of names for all of them, and for Applications:
//
//	name                 cluster-scoped and without a dot
//	c.<name>             cluster-scoped and with a dot
//	n.<namespace>.<name> in a namespace
//	a.<namespace>.<name> an Application, by ApplicationName
//	h.<cut>.<hash>       any of these that is longer than 63 characters
//
// Two objects have the same engine name only if they have the same namespace
// and the same name: a namespace has no dot, and the hash is the first 130 bits
// of the sha256 of the uncut name. The result is a DNS subdomain of at most 63
// characters where namespace is a DNS label and name a DNS subdomain.
func EngineName(namespace, name string) string {
	switch {
	case namespace != "":
		name = "n." + namespace + "." + name
	case strings.Contains(name, "."):
		name = "c." + name
	}
	return cutName(name)
}

// ApplicationName returns the name under which the engine knows what belongs to an Application of core.oam.dev. No
// other object has such a name, and [ObjectName] knows none.
func ApplicationName(namespace, name string) string { return cutName("a." + namespace + "." + name) }

// cutName keeps the beginning of a name that is too long, for people.
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

// IsCut tells of a name that [EngineName] made whether it is one of the last form,
// of which ObjectName does not say what it was made of.
func IsCut(engineName string) bool { return strings.HasPrefix(engineName, "h.") }

// ObjectName returns the namespace and the name of which [EngineName] makes
// engineName. It is not ok for a name that was cut, and for one that EngineName
// does not make.
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
