package prometheus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// strictly is a transport that refuses answers with a missing value. The client would read such a
// value as 0, and 0 passes every maximum.
type strictly struct{ next http.RoundTripper }

// RoundTrip sends a request and reads the answer.
func (s strictly) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := s.next.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	if err := checkAnswer(body); err != nil {
		return nil, fmt.Errorf("the answer is not one of the API of Prometheus: %w", err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// checkAnswer returns an error if an answer to a query lacks a value. The client handles answers
// that are not JSON and errors of the server.
func checkAnswer(body []byte) error {
	var answer struct {
		Status string
		Data   struct {
			ResultType string
			Result     json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Status == "error" {
		return nil //nolint:nilerr // the client reads the same answer next, and returns the error
	}
	if answer.Status != "success" {
		return errors.New(`it has no status "success"`)
	}
	switch answer.Data.ResultType {
	case "scalar":
		return checkPoint(answer.Data.Result)
	case "vector":
	case "":
		return errors.New("it has no resultType")
	default:
		return nil
	}
	var elements []struct{ Value, Histogram json.RawMessage }
	if err := json.Unmarshal(answer.Data.Result, &elements); err != nil || elements == nil {
		return errors.New("its result is not an array")
	}
	for i, e := range elements {
		if isNull(e.Value) && !isNull(e.Histogram) {
			continue
		}
		if err := checkPoint(e.Value); err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
	}
	return nil
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// checkPoint returns an error if a pair of a time and a value is incomplete.
func checkPoint(raw json.RawMessage) error {
	if isNull(raw) {
		return errors.New("it has no value")
	}
	var pair []json.RawMessage
	if err := json.Unmarshal(raw, &pair); err != nil || len(pair) != 2 {
		return errors.New("its value is not a pair of a time and a number")
	}
	var at *float64
	var value *string
	if json.Unmarshal(pair[0], &at) != nil || at == nil {
		return errors.New("its value has no time")
	}
	if json.Unmarshal(pair[1], &value) != nil || value == nil {
		return errors.New("its value has no number")
	}
	if _, err := strconv.ParseFloat(*value, 64); err != nil && !errors.Is(err, strconv.ErrRange) {
		return errors.New("its value is not a number")
	}
	return nil
}
