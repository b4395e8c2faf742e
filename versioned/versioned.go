// Package versioned reads stored records of JSON that begin with the number of their format.
//
// All records of Slipway are such: snapshots, plans, runs and what an engine stores. A record that a newer version wrote
// is refused with a [FormatError], so that a host can tell it from a damaged one.
package versioned

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// FormatError refuses a stored record that a newer version wrote. Nothing was read from it, and it must not be overwritten.
type FormatError struct {
	// Record says what was to be read, for example "plan header".
	Record string
	// Have is the format of the record, Want the newest that this version
	// reads.
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

// Decode reads one JSON value strictly: a field that is not known and what stands behind
// the value are errors. The format is checked first, so that a newer record is refused as
// such. What begins with the first format, as most does, is not read twice for that.
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
