package values

import (
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ProblemsOf returns the problems as one error, or nil. The first parameter names the item.
func ProblemsOf(subject string, problems field.ErrorList) error {
	if len(problems) == 0 {
		return nil
	}
	return &problemsError{subject, problems.ToAggregate()}
}

// problemsError is an aggregate of problems with the same text as the aggregate. The aggregate's
// own text takes time that grows with the square of its length.
type problemsError struct {
	subject  string
	problems utilerrors.Aggregate
}

func (e *problemsError) Error() string {
	all := e.problems.Errors()
	texts := make([]string, len(all))
	for i := range all {
		texts[i] = all[i].Error()
	}
	if len(texts) == 1 {
		return e.subject + ": " + texts[0]
	}
	return e.subject + ": [" + strings.Join(texts, ", ") + "]"
}

func (e *problemsError) Unwrap() error { return e.problems }
