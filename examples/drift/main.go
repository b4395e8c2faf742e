// Command drift says how objects on a member cluster differ from those of the
// hub, as two files have them.
//
//	drift -hub hub.yaml -member member.yaml
//	kubectl get deployment web -o yaml | drift -hub web.yaml -member - -o json
//
// The files hold YAML or JSON documents, several of each, and lists. Objects are
// matched by group, kind, namespace and name, where no namespace is default too;
// those that only the member's file has are not compared, and where it has none
// at all, all of the hub's are missing. A member's object of another version than the hub's is
// compared all the same, with a warning: what differs may be the version alone.
//
// # Flags
//
//	-hub FILE          what was asked for; - is the standard input
//	-member FILE       what is on the member; - is the standard input
//	-crd FILE          definitions of custom resources; those that the other two
//	                   files hold are known anyway
//	-comparison NAME   PartialComparison (the default) counts what the hub's
//	                   object says, FullComparison what only the member has too
//	-manager NAME      the field manager that applied the hub's objects: what it
//	                   owns and the hub's object has no longer is stale. Without
//	                   it, the one that applied most of what the hub's object says
//	-ignore POINTER    leave this field out, and all below it; repeatable, * is
//	                   any key or index, [name=app] the item with that key
//	-secret POINTER    do not show the value of this field; repeatable
//	-o FORMAT          text (the default), json or yaml
//	-exit-code         exit with 1 where something differs
//
// # Output
//
// Text is made for 80 columns and for people. JSON is an array with an element
// for each object of the hub's file, in its order, and YAML is the same:
//
//	group, version, kind, namespace, name   the object; the keys are always
//	                 there, group and namespace may be ""
//	state            Present, Missing, Terminating
//	observedDiffs    the differences, [] where there are none
//	  path           an RFC 6901 pointer in the member's object, or, for what only
//	                 the hub's has, in that one
//	  keyPath        the same with items of lists by their keys
//	  atomicPath     the pointer to the list or map around it that has one owner and
//	                 is applied as a whole; absent where there is none
//	  class          Changed, Missing, Stale, Order or Unmanaged
//	  valueInHub, valueInMember
//	                 the values; the key is absent where there is none
//	  owner          who wrote it on the member, and when
//	total            how many differences there are, shown or not
//
// Values of Secrets, and of what -secret names, are never shown.
//
// # How files are read
//
// As kubectl reads them, and stricter. "off" and the like without quotes are
// booleans, "y" and "n" are text, and both draw a warning. Numbers keep all of
// their digits. A key that stands twice is an error, and so are text that is not
// UTF-8, NUL bytes, documents of more than 10 MiB or a million values with their
// aliases written out, and more than 1,000 levels. An error says in which file,
// document and line it is; many are told at once, and nothing is compared then.
//
// The exit code is 0 whether or not something differs, 1 with -exit-code where
// something does, and 2 for input that cannot be read and wrong flags.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// The exit codes.
const (
	exitSame   = 0
	exitDrift  = 1
	exitFailed = 2
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run is the program.
func run(args []string, in io.Reader, out, errOut io.Writer) int {
	l, err := parse(args)
	switch {
	case errors.Is(err, errHelp):
		usage(out)
		return exitSame
	case err != nil:
		tell(errOut, "", err)
		usage(errOut)
		return exitFailed
	}
	results, warnings, err := l.compare(in)
	tell(errOut, "warning: ", warnings...)
	if err == nil {
		err = l.write(out, results)
	}
	if err != nil {
		tell(errOut, "", split(err)...)
		return exitFailed
	}
	if l.exitCode && drifted(results) {
		return exitDrift
	}
	return exitSame
}

// maxTold is how many errors, and how many warnings, are printed.
const maxTold = 50

// tell prints lines that a terminal cannot be harmed by.
func tell(out io.Writer, what string, errs ...error) {
	if more := len(errs) - maxTold; more > 0 {
		errs = append(errs[:maxTold:maxTold], fmt.Errorf("and %d more", more))
	}
	for _, err := range errs {
		fmt.Fprintf(out, "drift: %s%s\n", what, clean(err.Error()))
	}
}

// split returns the errors that are joined in one.
func split(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}
