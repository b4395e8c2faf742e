// Package fieldpath names places in a pair of objects, of the hub and of a member: as JSON
// pointers, as key paths for people, and by patterns.
package fieldpath
