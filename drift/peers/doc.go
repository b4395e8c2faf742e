// Package peers compares the speed of package drift with a library that compares JSON. It is a
// separate module, so that Slipway does not depend on that library.
package peers
