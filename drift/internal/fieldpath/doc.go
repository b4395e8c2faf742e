// Package fieldpath names places in a pair of objects, that of the hub and that of
// a member: as JSON pointers, as key paths for people, and by patterns.
package fieldpath
