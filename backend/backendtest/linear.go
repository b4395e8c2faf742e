package backendtest

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/slipway-dev/slipway/backend"
)

// linearPatience is the maximum duration of the check of one history. A check takes some
// milliseconds.
const linearPatience = 30 * time.Second

// keyCall is a call about one key and its result. A call whose outcome is unknown takes effect at
// any later moment; if it never does, the check orders it after everything else.
type keyCall struct {
	client       int
	key, op      string
	began, ended int64
	// value is the value that was put or read, prev the expected revision of a write.
	value string
	prev  backend.Revision
	// revision is the revision that was read or that a put returned.
	revision backend.Revision
	refused  error
	unknown  bool
}

func newKeyCall(client int, w backend.Write) *keyCall {
	c := &keyCall{client: client, key: w.Key, op: "put", value: string(w.Value), prev: w.Prev}
	if w.Delete {
		c.op = "delete"
	}
	return c
}

// keyState is the state of a key at one moment; without a revision it does not exist.
type keyState struct {
	value    string
	revision backend.Revision
}

// after reports whether the call's result is possible for a key in this state, and returns the
// state of the key after the call.
func (c *keyCall) after(s keyState) (bool, keyState) {
	holds := s.revision == c.prev
	switch {
	case c.op == "get":
		return s == keyState{c.value, c.revision}, s
	case c.unknown && !holds:
		return true, s
	case errors.Is(c.refused, backend.ErrNotFound):
		return s.revision == "", s
	case c.refused != nil && c.op == "delete":
		return !holds && s.revision != "", s
	case c.refused != nil:
		return !holds, s
	case c.op == "delete":
		return holds && s.revision != "", keyState{}
	}
	return holds, keyState{c.value, c.revision}
}

func (c *keyCall) String() string {
	when := fmt.Sprintf("%4d-%-4d", c.began, c.ended)
	what := c.op
	if c.op == "put" {
		what += " " + c.value
	}
	if c.op != "get" {
		what += fmt.Sprintf(" at revision %q", string(c.prev))
	}
	return fmt.Sprintf("%s client %d: %s: %s", when, c.client, what, c.outcome())
}

func (c *keyCall) outcome() string {
	switch {
	case c.unknown:
		return "outcome unknown"
	case c.refused != nil:
		return c.refused.Error()
	case c.op == "delete":
		return "deleted"
	case c.revision == "":
		return "not found"
	}
	return fmt.Sprintf("%s is revision %q", c.value, string(c.revision))
}

// check checks that the histories of both keys are linearizable.
func (p *keyPair) check() error {
	var errs []error
	for _, key := range p.keys {
		var calls []*keyCall
		for _, of := range p.calls {
			calls = append(calls, slices.DeleteFunc(slices.Clone(of), func(c *keyCall) bool { return c.key != key })...)
		}
		slices.SortFunc(calls, func(a, b *keyCall) int { return cmp.Compare(a.began, b.began) })
		if err := checkHistory(calls); err != nil {
			errs = append(errs, fmt.Errorf("key %s: %w; its calls, with the order of their beginnings and ends:\n%s", key, err, readable(calls)))
		}
	}
	return errors.Join(errs...)
}

func readable(calls []*keyCall) string {
	var b strings.Builder
	for _, c := range calls {
		fmt.Fprintf(&b, "  %v\n", c)
	}
	return b.String()
}

// checkHistory checks the calls of one key, which did not exist before.
func checkHistory(calls []*keyCall) error {
	if err := nameWrites(calls); err != nil {
		return err
	}
	ops := make([]porcupine.Operation, 0, len(calls))
	for _, c := range calls {
		op := porcupine.Operation{ClientId: c.client, Input: c, Call: c.began, Return: c.ended}
		if c.unknown {
			op.Return = math.MaxInt64
		}
		ops = append(ops, op)
	}
	switch porcupine.CheckOperationsTimeout(keyModel(), ops, linearPatience) {
	case porcupine.Ok:
		return nil
	case porcupine.Illegal:
		return errors.New("no order of the calls explains what they returned")
	}
	return fmt.Errorf("whether it is linearizable was not found out within %v", linearPatience)
}

func keyModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return keyState{} },
		Step: func(state, input, _ any) (bool, any) { return input.(*keyCall).after(state.(keyState)) },
	}
}

// nameWrites checks that every revision stands for one value and every value for one revision. It
// gives the writes with unknown outcome the revision that their value was read with, or a new one
// if it was never read.
func nameWrites(calls []*keyCall) error {
	values, revisions := map[backend.Revision]string{}, map[string]backend.Revision{}
	for _, c := range calls {
		if c.op == "delete" || c.unknown || c.refused != nil {
			continue
		}
		if c.revision == "" {
			if c.op == "put" {
				return errors.New("a put returned no revision")
			}
			continue
		}
		if v, ok := values[c.revision]; ok && v != c.value {
			return fmt.Errorf("revision %q stands for %s and for %s", string(c.revision), v, c.value)
		}
		if r, ok := revisions[c.value]; ok && r != c.revision {
			return fmt.Errorf("%s, which was written once, has the revisions %q and %q", c.value, string(r), string(c.revision))
		}
		values[c.revision], revisions[c.value] = c.value, c.revision
	}
	for _, c := range calls {
		if c.unknown && c.op == "put" {
			c.revision = cmp.Or(revisions[c.value], backend.Revision("unknown, of "+c.value))
		}
	}
	return nil
}
