package storefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
)

// changed returns the records with the value of one of them changed.
func changed(records []backend.Record, key string, change func([]byte) []byte) []backend.Record {
	out := append([]backend.Record{}, records...)
	for i := range out {
		if out[i].Key == key {
			out[i].Value = change(bytes.Clone(out[i].Value))
		}
	}
	return out
}

func replaced(from, to string) func([]byte) []byte {
	return func(value []byte) []byte { return bytes.Replace(value, []byte(from), []byte(to), 1) }
}

func TestWrongCommandLinesOpenNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	for args, text := range map[string]string{
		"nonsense":                 `unknown command "nonsense" for`,
		"check":                    "see slipway store check --help",
		"check state.db more":      "see slipway store check --help",
		"backup state.db":          "see slipway store backup --help",
		"check state.db -o text":   "want table, wide, json, yaml or name",
		"check state.db --reveal":  "unknown flag: --reveal",
		"records state.db a b":     "see slipway store records --help",
		"records state.db --nosuc": "unknown flag: --nosuc",
	} {
		want(t, store(t, strings.Fields(args)...), cli.ExitUsage, text)
	}
	if _, err := os.Stat("state.db"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made: %v", err)
	}
}

// The error of a file that cannot be opened contains a remedy.
func TestAFileThatCannotBeOpened(t *testing.T) {
	records := played(t)
	t.Chdir(t.TempDir())
	want(t, store(t, "check", "state.db"), cli.ExitFailed, "no such file")
	if _, err := os.Stat("state.db"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a file was made: %v", err)
	}
	write(t, records)
	s, err := bolt.Open("state.db", bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want(t, store(t, "check", "state.db", "-o", "json"), cli.ExitFailed, "the file is in use: another process has state.db open")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	reader, err := bolt.Open("state.db", bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	want(t, store(t, "check", "state.db"), cli.ExitDone, "state.db: nothing is wrong")
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("state.db")
	if err != nil {
		t.Fatal(err)
	}
	b[bytes.LastIndex(b, []byte("shop-1-after-canary"))] ^= 1
	const damaged = "the file is damaged"
	for content, text := range map[string]string{
		string(b): damaged, "": damaged, strings.Repeat("something else", 1<<12): "state.db is not a store of Slipway, or its beginning is destroyed\n",
	} {
		if err := os.WriteFile("state.db", []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got := store(t, "records", "state.db")
		if want(t, got, cli.ExitFailed, text); got.Out != "" {
			t.Errorf("it printed %s", got.Out)
		}
	}
}

// A record that cannot be read is reported, and hides no other.
func TestCheckReportsEachRecordThatCannotBeRead(t *testing.T) {
	records := played(t)
	var plan, content, journal string
	for _, r := range records {
		switch kind, _, _ := strings.Cut(r.Key, "/"); {
		case kind == "plan" && plan == "":
			plan = r.Key
		case kind == "content" && content == "" && bytes.Contains(r.Value, []byte(hushed)):
			content = r.Key
		case kind == "journal" && journal == "":
			journal = r.Key
		}
	}
	for what, c := range map[string]struct {
		key    string
		change func([]byte) []byte
		want   []string
	}{
		"a newer run":         {"run/shop-1", replaced(`"format":1`, `"format":2`), []string{"run/shop-1"}},
		"a damaged run":       {"run/shop-1", replaced(`"run":{`, `"run":{"eve":1,`), []string{"record run/shop-1 is damaged"}},
		"a damaged placement": {"placement/shop", replaced(`"uid":`, `"udi":`), []string{"record placement/shop is damaged"}},
		"a damaged plan":      {plan, replaced("sre", "dev"), []string{"run/shop-"}},
		"a damaged content":   {content, replaced(hushed, "aHVzaB=="), []string{"placement/shop"}},
		"a damaged journal":   {journal, replaced(`"format":1`, `"format":x`), []string{"journal"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Chdir(t.TempDir())
			write(t, changed(records, c.key, c.change))
			want(t, store(t, "check", "state.db"), cli.ExitFailed, append(c.want, "records of state.db that cannot be read: ")...)
			got := store(t, "check", "state.db", "-o", "json")
			var all struct {
				Items []struct{ Record, Error string }
			}
			if err := json.Unmarshal([]byte(got.Out), &all); err != nil || len(all.Items) == 0 || all.Items[0].Error == "" {
				t.Errorf("%v: %s", err, got.Out)
			}
			for _, p := range all.Items {
				if p.Record == "run/shop-2" && what != "a damaged plan" && what != "a damaged journal" {
					t.Errorf("%s is reported, too: %s", p.Record, p.Error)
				}
			}
			want(t, store(t, "records", "state.db"), cli.ExitDone, "run/shop-1", "run/shop-2")
		})
	}
}

// Nothing that may be in a Secret is shown unless asked for.
func TestSecretsAreShownOnlyWhenAskedFor(t *testing.T) {
	records := played(t)
	t.Chdir(t.TempDir())
	write(t, records)
	holding := 0
	for _, r := range records {
		for _, format := range []string{"table", "json", "yaml", "name"} {
			got := store(t, "records", "state.db", r.Key, "-o", format)
			if want(t, got, cli.ExitDone); strings.Contains(got.Out, hushed) || got.Out == "" {
				t.Errorf("%s -o %s shows a secret, or nothing: %s", r.Key, format, got.Out)
			}
		}
		if bytes.Contains(r.Value, []byte(hushed)) {
			holding++
			want(t, store(t, "records", "state.db", r.Key, "--reveal"), cli.ExitDone, hushed)
		}
	}
	if holding < 2 {
		t.Fatalf("only %d records hold what is secret", holding)
	}
	want(t, store(t, "records", "state.db", "run/shop-9"), cli.ExitFailed, "run/shop-9: not found")
}

// A backup is a file with the same records; an existing file does not change.
func TestABackupIsANewFileWithAllRecords(t *testing.T) {
	records := played(t)
	t.Chdir(t.TempDir())
	write(t, records)
	got := store(t, "backup", "state.db", "copy.db", "-o", "json")
	want(t, got, cli.ExitDone)
	var c struct {
		File    string
		Records int
	}
	if err := json.Unmarshal([]byte(got.Out), &c); err != nil || c.File != "copy.db" || c.Records != len(records) {
		t.Errorf("%+v, %v", c, err)
	}
	all := store(t, "records", "state.db", "-o", "wide")
	if there := store(t, "records", "copy.db", "-o", "wide"); there != all {
		t.Errorf("the backup has %s\nwant %s", there.Out, all.Out)
	}
	info, err := os.Stat("copy.db")
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup is %v, %v: want one that only its owner reads", info, err)
	}
	for _, to := range []string{"copy.db", "state.db"} {
		want(t, store(t, "backup", "state.db", to), cli.ExitFailed, to+": file exists")
	}
	want(t, store(t, "backup", "state.db", "none/copy.db"), cli.ExitFailed, "none/copy.db")
	if again := store(t, "records", "copy.db", "-o", "wide"); again != all {
		t.Errorf("a refused backup changed the file that was there: %+v", again)
	}
}

func TestAnEmptyStoreIsNotWrong(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, nil)
	want(t, store(t, "check", "state.db"), cli.ExitDone, "nothing is wrong: records 0")
	want(t, store(t, "records", "state.db"), cli.ExitDone, "no records")
	want(t, store(t, "records", "state.db", "-o", "json"), cli.ExitDone, `"items": []`)
}
