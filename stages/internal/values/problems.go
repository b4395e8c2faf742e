package values

import (
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ProblemsOf returns the problems as one error, or nil. The first parameter names the item.
func ProblemsOf(what string, problems field.ErrorList) error {
	if len(problems) == 0 {
		return nil
	}
	return &problemsError{what, problems.ToAggregate()}
}

// problemsError is an aggregate of problems with the same text as the aggregate. The aggregate's
// own text takes time that grows with the square of its length.
type problemsError struct {
	what     string
	problems utilerrors.Aggregate
}

func (e *problemsError) Error() string {
	all := e.problems.Errors()
	texts := make([]string, len(all))
	for i := range all {
		texts[i] = all[i].Error()
	}
	if len(texts) == 1 {
		return e.what + ": " + texts[0]
	}
	return e.what + ": [" + strings.Join(texts, ", ") + "]"
}

func (e *problemsError) Unwrap() error { return e.problems }
