package backendtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/backend"
)

// limit is the maximum duration of one case.
const limit = time.Minute

// patience is the maximum wait of a case for an effect that a backend promises without a time
// limit.
const patience = 10 * time.Second

// Case proves one sentence of the contract of an interface T.
type Case[T any] struct {
	// Name is unique among the cases for T, in lower case with hyphens.
	Name string
	// Sentence is the part of the contract that is violated if Run returns an error.
	Sentence string
	// Run uses a newly opened T that no other case uses. Its error says what it observed instead.
	Run func(ctx context.Context, t T) error
}

// StoreCase is a case for a store.
type StoreCase = Case[backend.Store]

// ConnCase is a case for a connection to a cluster.
type ConnCase = Case[backend.Conn]

// check opens a T and runs the case on it.
func (c Case[T]) check(ctx context.Context, open func() (T, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	t, err := open()
	if err != nil {
		return fmt.Errorf("%s: open: %w", c.Name, err)
	}
	if err := c.Run(ctx, t); err != nil {
		return fmt.Errorf("%s: %w (%s)", c.Name, err, c.Sentence)
	}
	return nil
}

// checkAll runs all cases and returns all violations.
func checkAll[T any](ctx context.Context, cases []Case[T], open func() (T, error)) error {
	var errs []error
	for _, c := range cases {
		errs = append(errs, c.check(ctx, open))
	}
	return errors.Join(errs...)
}

// testAll runs each case as its own test.
func testAll[T any](t *testing.T, cases []Case[T], open func(t *testing.T) T) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			if err := c.check(t.Context(), func() (T, error) { return open(t), nil }); err != nil {
				t.Error(err)
			}
		})
	}
}

// kinds are the kinds of error that a caller distinguishes.
func kinds() []error {
	return []error{backend.ErrNotFound, backend.ErrConflict, backend.ErrFenced, backend.ErrPermanent}
}

// want returns nil if err is of the wanted kind and of no other.
func want(what string, err, kind error) error {
	for _, k := range kinds() {
		if errors.Is(err, k) != errors.Is(kind, k) {
			return fmt.Errorf("%s: the error is %q, want %q", what, fmt.Sprint(err), kind)
		}
	}
	return nil
}

// wantTransient returns nil if err is an error of none of the kinds.
func wantTransient(what string, err error) error {
	if err == nil {
		return fmt.Errorf("%s: there is no error", what)
	}
	for _, k := range kinds() {
		if errors.Is(err, k) {
			return fmt.Errorf("%s: the error is %q, want one that is none of the kinds", what, err)
		}
	}
	return nil
}

// eventually polls ok until it returns true, for at most patience.
func eventually(ctx context.Context, what string, ok func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s did not happen within %v", what, patience)
		case <-tick.C:
		}
	}
	return nil
}

// together runs n functions at once and returns all their errors.
func together(n int, f func(i int) error) error {
	errs := make(chan error, n)
	for i := range n {
		go func() { errs <- f(i) }()
	}
	var all []error
	for range n {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}
