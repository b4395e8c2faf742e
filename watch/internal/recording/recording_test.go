package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

// The recorded terminal in the documents has the frames of slipway watch, as well-formed XML.
func TestRecordingIsUpToDate(t *testing.T) {
	got, err := record()
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("../../../docs/watch.svg")
	if err != nil || string(got) != string(want) {
		t.Errorf("docs/watch.svg is not what the program draws: run make generate (%v)", err)
	}
	d := xml.NewDecoder(strings.NewReader(string(got)))
	for err == nil {
		_, err = d.Token()
	}
	if !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// A piece of a line keeps its column and its colours; reserved characters are escaped.
func TestSpansKeepColumnsAndColours(t *testing.T) {
	got := spans("a \x1b[1;31m<b>\x1b[m  c")
	want := `<tspan x="0">a</tspan><tspan x="16.8" class="b red">&lt;b&gt;</tspan><tspan x="58.8">c</tspan>`
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
