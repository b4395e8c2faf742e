package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestWhatEachCommandShows holds every command against what it printed before,
// on 80 columns.
func TestWhatEachCommandShows(t *testing.T) {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	records, uids := played(t)
	t.Chdir(t.TempDir())
	write(t, records)
	for name, args := range map[string]string{
		"overview": "", "runs": "runs", "run-done": "run shop-1", "run-waiting": "run shop-2", "run-queued": "run shop-3",
		"plans": "plans", "plan": "plan shop-2", "journals": "journals", "events": "events", "events-run": "events -run shop-3",
		"leases": "leases", "records": "records", "records-run": "records -run shop-2", "record": "record run/shop-3",
		"record-hidden": "record placement/shop", "runs-placement": "runs -placement shop",
	} {
		t.Run(name, func(t *testing.T) {
			for ending, flags := range map[string][]string{".txt": nil, ".json": {"-o", "json"}} {
				got := inspect(t, append(append([]string{"state.db"}, strings.Fields(args)...), flags...)...)
				got.want(t, exitDone, "")
				text := steady(got.out, uids)
				if strings.HasPrefix(name, "records") {
					text = sorted(text)
				}
				if ending == ".txt" {
					fits(t, name, text)
				} else {
					onlyObjects(t, got.out)
				}
				golden(t, dir, name+ending, text)
			}
		})
	}
}

// fits checks that all lines are short enough, but for those that are one
// word, as a digest or a key, and those of a record.
func fits(t *testing.T, name, text string) {
	t.Helper()
	for l := range strings.Lines(text) {
		if utf8.RuneCountInString(strings.TrimSuffix(l, "\n")) > columns && !strings.HasPrefix(name, "record") {
			t.Errorf("%s is wider than %d columns: %s", name, columns, l)
		}
	}
}

// onlyObjects checks that every line is a JSON object.
func onlyObjects(t *testing.T, text string) {
	t.Helper()
	for l := range strings.Lines(text) {
		var o map[string]any
		if err := json.Unmarshal([]byte(l), &o); err != nil {
			t.Errorf("%q: %v", l, err)
		}
	}
}
