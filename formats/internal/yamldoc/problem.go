package yamldoc

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/formats/problem"
)

// MaxProblems limits the problems of a hostile input.
const MaxProblems = 1000

// Report collects problems, up to [MaxProblems]. Its zero value is empty.
type Report struct {
	problems problem.List
	// more counts the problems that are not kept.
	more int
}

// Add adds a problem, and reports whether it is kept.
func (r *Report) Add(p problem.Problem) bool {
	if len(r.problems) >= MaxProblems {
		r.more++
		return false
	}
	r.problems = append(r.problems, p)
	return true
}

// Include adds the problems of another report.
func (r *Report) Include(other *Report) {
	for _, p := range other.problems {
		r.Add(p)
	}
	r.more += other.more
}

// Count returns the number of problems, including those that are not kept.
func (r *Report) Count() int { return len(r.problems) + r.more }

// OK reports whether there is no problem.
func (r *Report) OK() bool { return r.Count() == 0 }

// Problems returns the problems of each file by line, in the order of the files; the last one
// counts the problems that are not kept.
func (r *Report) Problems() problem.List {
	list, files := slices.Clone(r.problems), map[string]int{}
	for _, p := range list {
		if _, known := files[p.File]; !known {
			files[p.File] = len(files)
		}
	}
	slices.SortStableFunc(list, func(a, b problem.Problem) int {
		return cmp.Or(cmp.Compare(files[a.File], files[b.File]), cmp.Compare(a.Line, b.Line))
	})
	if r.more > 0 {
		last := list[len(list)-1]
		list = append(list, problem.Problem{File: last.File, Line: last.Line, Text: fmt.Sprintf("and %d problems more", r.more)})
	}
	return list
}

// Err returns the problems as an error, a [problem.List]; nil if there are none.
func (r *Report) Err() error {
	if r.OK() {
		return nil
	}
	return r.Problems()
}

// Clip bounds the text that a problem repeats from its input.
func Clip(s string) string { return clipTo(s, 64) }

func clipTo(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}

// maxBody bounds the text of an error from another package.
const maxBody = 1024

// Check reports the field errors in err at the fields below v. place turns their paths into paths
// below v; nil keeps them. If a problem was reported before at the same path or above, the
// checked value was incomplete, and nothing is added. An error that is no field error is reported
// at v.
func (v Value) Check(err error, place func(string) string) {
	for _, e := range flat(err) {
		fe, ok := errors.AsType[*field.Error](e)
		if !ok {
			v.Fail("%s", clipTo(e.Error(), maxBody))
			continue
		}
		path := fe.Field
		if place != nil {
			path = place(path)
		}
		if at := v.Place(path); !v.Doc.Failed(at.Path) {
			at.Fail("%s", clipTo(fe.ErrorBody(), maxBody))
		}
	}
}

func flat(err error) []error {
	if err == nil {
		return nil
	}
	if all, ok := errors.AsType[utilerrors.Aggregate](err); ok {
		return all.Errors()
	}
	return []error{err}
}

// FieldErrors returns the field errors in an error.
func FieldErrors(err error) (list field.ErrorList) {
	for _, e := range flat(err) {
		if fe, ok := errors.AsType[*field.Error](e); ok {
			list = append(list, fe)
		}
	}
	return list
}
