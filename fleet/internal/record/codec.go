package record

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/versioned"
)

// Format is the version of the records that this package writes, and the newest
// that is read.
const Format = 1

// Encode encodes a record, or a part of one. Records hold nothing that cannot be
// encoded.
func Encode(rec any) []byte {
	if r, ok := rec.(*Run); ok {
		rec = r.form()
	}
	b, err := json.Marshal(rec)
	if err != nil {
		return nil
	}
	return b
}

// Decode decodes a record strictly. One of a newer format is refused with a
// [versioned.FormatError], before anything else of it is read; every other error is permanent.
// That the bytes are those that were written is the store's to check.
func Decode(r backend.Record, into any) error {
	run, isRun := into.(*Run)
	var form *runForm
	if isRun {
		form = run.form()
		into = form
	}
	err := versioned.Decode("its JSON", Format, r.Value, into)
	if newer := (*versioned.FormatError)(nil); errors.As(err, &newer) {
		newer.Record = r.Key
		return newer
	}
	if err == nil && isRun {
		err = run.read(form)
	}
	if err != nil {
		return Damaged(r.Key, err)
	}
	return nil
}

// Damaged returns the permanent error of a record that cannot be one.
func Damaged(key string, err error) error {
	return fmt.Errorf("record %s is damaged: %w: %w", key, backend.ErrPermanent, err)
}

// CheckName checks that a record is not the one of its key.
func CheckName(key, want, got string) error {
	if want == got {
		return nil
	}
	return Damaged(key, fmt.Errorf("it is that of %q", got))
}
