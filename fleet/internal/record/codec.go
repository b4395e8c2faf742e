package record

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/versioned"
)

// Format is the version of the records that this package writes, and the newest version that it
// reads.
const Format = 1

// Encode encodes a record, or a part of one. Every record can be encoded.
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

// Decode decodes a record strictly. It refuses a record of a newer format with a
// [versioned.FormatError] before it reads anything else; every other error is permanent. The store
// verifies the integrity of the bytes.
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

// Damaged returns the permanent error for a record with invalid content.
func Damaged(key string, err error) error {
	return fmt.Errorf("record %s is damaged: %w: %w", key, backend.ErrPermanent, err)
}

// CheckName returns an error if the record under key is not the record with the name want.
func CheckName(key, want, got string) error {
	if want == got {
		return nil
	}
	return Damaged(key, fmt.Errorf("it is that of %q", got))
}
