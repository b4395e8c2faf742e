package stages

import "fmt"

// FormatError refuses a stored record that a newer version of this package
// wrote. Nothing was read from it, and it must not be overwritten.
type FormatError struct {
	// Record says what was to be read, for example "plan header".
	Record string
	// Have is the format of the record, Want the newest that this version
	// reads.
	Have, Want int
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("%s: format %d is newer than %d, the newest that this version reads: use a newer version",
		e.Record, e.Have, e.Want)
}

// planFormat checks the format of a record.
func planFormat(record string, have, want int) error {
	switch {
	case have > want:
		return &FormatError{Record: record, Have: have, Want: want}
	case have < 1:
		return fmt.Errorf("%s: has no format: it is not one, or it is damaged", record)
	default:
		return nil
	}
}
