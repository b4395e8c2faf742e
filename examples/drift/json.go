package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// looksLikeJSON reports whether a document is JSON as tools write it. YAML that
// looks so as well reads the same.
func looksLikeJSON(text []byte) bool {
	rest, ok := bytes.CutPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{"))
	rest = bytes.TrimLeft(rest, " \t\r\n")
	return ok && len(rest) > 0 && (rest[0] == '"' || rest[0] == '}')
}

// errSyntax is text that is no JSON. It may still be YAML.
var errSyntax = errors.New("is not JSON")

// json reads the values of a chunk, of which skip bytes are the mark in front.
func (r *reader) json(c chunk, skip int) {
	d := &jsonReader{text: c.text[skip:], line: c.before + lineAt(c.text, skip)}
	d.decoder = json.NewDecoder(bytes.NewReader(d.text))
	d.decoder.UseNumber()
	for first := true; ; first = false {
		line := d.lineAt(d.next())
		d.values = 0
		v, err := d.value(0)
		switch {
		case errors.Is(err, io.EOF):
			return
		case errors.Is(err, errSyntax) && first:
			r.yamlOr(c, d.lineAt(d.offset()), err)
			return
		}
		r.documents++
		if err != nil {
			r.report(d.lineAt(d.offset()), err.Error())
			return
		}
		if r.take(v, r.here(line)); r.full() {
			return
		}
	}
}

// jsonReader reads values with what encoding/json would let pass: keys that
// stand twice, any depth, any number of values.
type jsonReader struct {
	text    []byte
	decoder *json.Decoder
	values  int
	// line is the line at the offset counted.
	line, counted int
}

// lineAt returns the line of an offset that is not before the last one.
func (d *jsonReader) lineAt(offset int) int {
	d.line += bytes.Count(d.text[d.counted:max(d.counted, offset)], []byte("\n"))
	d.counted = max(d.counted, offset)
	return d.line
}

func (d *jsonReader) offset() int { return min(int(d.decoder.InputOffset()), len(d.text)) }

// next is where the next value begins.
func (d *jsonReader) next() int {
	return len(d.text) - len(bytes.TrimLeft(d.text[d.offset():], " \t\r\n"))
}

// token returns io.EOF only where no value has begun.
func (d *jsonReader) token(level int) (json.Token, error) {
	t, err := d.decoder.Token()
	switch {
	case errors.Is(err, io.EOF) && level == 0:
		return nil, io.EOF
	case err != nil:
		return nil, fmt.Errorf("%w: %s", errSyntax, strings.TrimPrefix(strings.ReplaceAll(err.Error(), "EOF", "unexpected end"), "unexpected unexpected"))
	}
	return t, nil
}

func (d *jsonReader) value(level int) (any, error) {
	t, err := d.token(level)
	if err != nil {
		return nil, err
	}
	if d.values++; d.values > maxValues {
		return nil, fmt.Errorf("has more than %d values", maxValues)
	}
	if level > maxLevels {
		return nil, fmt.Errorf("is nested deeper than %d levels", maxLevels)
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '{' {
			return d.object(level)
		}
		return d.list(level)
	case json.Number:
		return number(t.String()), nil
	}
	return t, nil
}

func (d *jsonReader) object(level int) (any, error) {
	o := map[string]any{}
	for d.decoder.More() {
		t, err := d.token(level + 1)
		if err != nil {
			return nil, err
		}
		key, _ := t.(string)
		if _, twice := o[key]; twice {
			return nil, fmt.Errorf("the key %q stands twice in one object", shorten(key))
		}
		if o[key], err = d.value(level + 1); err != nil {
			return nil, err
		}
	}
	_, err := d.token(level + 1)
	return o, err
}

func (d *jsonReader) list(level int) (any, error) {
	l := []any{}
	for d.decoder.More() {
		v, err := d.value(level + 1)
		if err != nil {
			return nil, err
		}
		l = append(l, v)
	}
	_, err := d.token(level + 1)
	return l, err
}

// number returns a number as apimachinery has it, and one that neither int64 nor
// float64 has room for as its digits.
func number(text string) any {
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !strings.ContainsAny(text, ".eE") {
		return json.Number(text)
	}
	return f
}
