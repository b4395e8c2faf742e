// Package versioned reads stored records of JSON that begin with the number of their format.
//
// All records of Slipway have this form: snapshots, plans, runs and the records of an engine. A
// record of a newer version is refused with a [FormatError], so that a host can distinguish it
// from a damaged record.
package versioned

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// FormatError refuses a stored record of a newer version. No part of the record was decoded, and
// it must not be overwritten.
type FormatError struct {
	// Record names the kind of the record, for example "plan header".
	Record string
	// Have is the format of the record, Want the newest format that this version reads.
	Have, Want int
}

// Error names the record and both formats.
func (e *FormatError) Error() string {
	return fmt.Sprintf("%s: format %d is newer than %d, the newest that this version reads: use a newer version",
		e.Record, e.Have, e.Want)
}

// CheckFormat checks the format of a record.
func CheckFormat(record string, have, want int) error {
	switch {
	case have > want:
		return &FormatError{Record: record, Have: have, Want: want}
	case have < 1:
		return fmt.Errorf("%s: has no format: it is not one, or it is damaged", record)
	default:
		return nil
	}
}

// Decode reads one JSON value strictly: unknown fields and data after the value are errors. It
// checks the format first, so that the error of a newer record is a FormatError. A record that
// begins with the first format, the most common case, is decoded only once.
func Decode(record string, newest int, b []byte, into any) error {
	if !bytes.HasPrefix(b, []byte(`{"format":1,`)) {
		var probe struct {
			Format int `json:"format"`
		}
		if err := json.Unmarshal(b, &probe); err != nil {
			return fmt.Errorf("%s: %w", record, err)
		}
		if err := CheckFormat(record, probe.Format, newest); err != nil {
			return err
		}
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("%s: %w", record, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: has something behind its end", record)
	}
	return nil
}
