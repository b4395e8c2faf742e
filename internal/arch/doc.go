// Package arch answers whether the packages of this module depend on one another, and on the
// world, only in the directions that ARCHITECTURE.md draws, and whether each is small enough to
// be understood as a whole.
//
// It has no code of its own: its tests parse every Go file of the module, whatever its build
// constraints, and name the file and line of each broken rule. A new package needs a row in the
// table of areas. A package that passes a limit of size (its lines, files, exported names, the
// methods of one type, the files that use one another in a cycle) needs a row in the table of
// exceptions, whose bound may only fall.
package arch
