package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/slipway-dev/slipway/backend"
)

// recordDetail is one record with its value.
type recordDetail struct {
	stored

	// Value is the record if it is JSON, Text if it is not.
	Value json.RawMessage `json:"value,omitempty"`
	Text  string          `json:"text,omitempty"`
	// Hidden says why neither is there.
	Hidden string `json:"hidden,omitempty"`
}

// secretive are the prefixes of records that may hold what is in a Secret.
var secretive = []string{"content/", "placement/"}

// listRecords shows what is stored.
func listRecords(ctx context.Context, v *view) error {
	belongs, err := v.belongs(ctx)
	if err != nil {
		return err
	}
	records, err := v.stored(ctx, "")
	if err != nil {
		return err
	}
	var all []stored
	for _, rec := range records {
		if belongs(rec.Key) {
			all = append(all, rec)
		}
	}
	if !v.json {
		for _, rec := range all {
			v.write(fmt.Sprintf("%8d  %s\n", rec.Bytes, clean(rec.Key)))
		}
		v.write(fmt.Sprintf("%s of %s\n", count(len(all), "record"), size(bytesOf(all))))
		return nil
	}
	list(v, "", all, nil, nil)
	return nil
}

func bytesOf(all []stored) (n int64) {
	for _, rec := range all {
		n += int64(rec.Bytes)
	}
	return n
}

// belongs returns a function that reports whether a key is asked for. The keys are documented in
// package fleet.
func (v *view) belongs(ctx context.Context) (func(key string) bool, error) {
	runs, err := v.runs(ctx)
	if err != nil || v.run == "" && v.placement == "" {
		return func(string) bool { return true }, err
	}
	of := map[string]bool{}
	for _, r := range runs {
		of["run/"+r.Run] = true
		if r.UID != "" {
			of["plan/"+r.Plan], of["inflight/"+r.UID], of["journal/"+r.UID], of["command/"+r.UID] = true, true, true, true
		}
	}
	if p := v.placement; p != "" && v.run == "" {
		of["placement/"+p], of["content/"+p], of["bindings/"+p], of["intent/"+p], of["journal/placement."+p] = true, true, true, true, true
	}
	return func(key string) bool { return of[firstTwo(key)] }, nil
}

// firstTwo cuts a key to its first two segments.
func firstTwo(key string) string {
	kind, rest, _ := strings.Cut(key, "/")
	whose, _, _ := strings.Cut(rest, "/")
	return kind + "/" + whose
}

// showRecord shows one record as it is stored.
func showRecord(ctx context.Context, v *view) error {
	rec, err := v.store.Get(ctx, v.arg)
	if errors.Is(err, backend.ErrNotFound) {
		return fmt.Errorf("there is no record %s: inspect %s records lists them", v.arg, v.file)
	}
	if err != nil {
		return err
	}
	d := recordDetail{stored: stored{rec.Key, rec.Revision, len(rec.Value)}}
	d.take(rec.Value, v.reveal)
	if v.json {
		v.object(d)
		return nil
	}
	v.field("record", d.Key)
	v.field("revision", string(d.Revision))
	v.field("size", strconv.Itoa(d.Bytes)+" B")
	v.field("hidden", d.Hidden)
	if d.Hidden == "" {
		v.write(d.pretty())
	}
	return nil
}

// take takes the value of a record, unless it is to be hidden.
func (d *recordDetail) take(value []byte, reveal bool) {
	for _, prefix := range secretive {
		if strings.HasPrefix(d.Key, prefix) && !reveal {
			d.Hidden = "records under " + prefix + " may hold what is in a Secret; -reveal shows them"
			return
		}
	}
	switch {
	case json.Valid(value) && utf8.Valid(value):
		d.Value = value
	case utf8.Valid(value):
		d.Text = string(value)
	default:
		d.Text = strconv.Quote(string(value))
	}
}

// pretty returns the value for people.
func (d *recordDetail) pretty() string {
	var b bytes.Buffer
	if d.Value == nil || json.Indent(&b, d.Value, "", "  ") != nil {
		return joined("", clean(d.Text), "\n")
	}
	var out []string
	for l := range strings.SplitSeq(b.String(), "\n") {
		out = append(out, clean(l))
	}
	return strings.Join(out, "\n") + "\n"
}
