package main

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

func newer(value []byte) []byte {
	return bytes.Replace(value, []byte(`"format":1`), []byte(`"format":2`), 1)
}

func damaged(value []byte) []byte {
	return bytes.Replace(value, []byte(`"run":{`), []byte(`"run":{"eve":1,`), 1)
}

// A command line that is wrong is told what is right, and nothing is opened.
func TestAWrongCommandLineIsToldWhatIsRight(t *testing.T) {
	t.Chdir(t.TempDir())
	for args, want := range map[string]string{
		"":                              "FILE is missing",
		"state.db runz":                 `"runz" is no command: it must be one of overview, runs, run, plans, plan, journals, events, leases, records, record, backup`,
		"runs state.db":                 "the file comes first: inspect state.db runs",
		"state.db run":                  "NAME is missing: inspect FILE run NAME",
		"state.db runs shop-1":          "one of the runs is shown by inspect FILE run NAME",
		"state.db run shop-1 x":         `unexpected argument "x" after run`,
		"state.db -o yaml":              "must be text or json",
		"state.db overview -run shop-1": "-run means nothing to overview: it is for runs, plans, journals, events, leases, records",
		"state.db records -reveal":      "-reveal means nothing to records: it is for record",
		"state.db runs -run=":           "-run is empty",
		"state.db -nothing":             "flag provided but not defined: -nothing",
		"state.db -- runs -o":           `unexpected argument "-o"`,
	} {
		got := inspect(t, strings.Fields(args)...)
		got.want(t, exitUsage, want)
		if got.out != "" {
			t.Errorf("%q printed %s", args, got.out)
		}
	}
	if _, err := os.Stat("state.db"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made: %v", err)
	}
}

// Flags may stand anywhere, and -h prints the usage and ends well.
func TestFlagsStandAnywhere(t *testing.T) {
	records, _ := played(t)
	t.Chdir(t.TempDir())
	write(t, records)
	first := inspect(t, "state.db", "runs", "-o", "json", "-run", "shop-1")
	first.want(t, exitDone, "")
	for _, args := range []string{"-o json -run shop-1 state.db runs", "--run=shop-1 state.db -o=json runs", "-run shop-1 -o json -- state.db runs"} {
		if got := inspect(t, strings.Fields(args)...); got != first {
			t.Errorf("%s: %+v, want %+v", args, got, first)
		}
	}
	for _, args := range []string{"-h", "state.db runs --help"} {
		got := inspect(t, strings.Fields(args)...)
		got.want(t, exitDone, "")
		fits(t, args, got.out)
		if !strings.HasPrefix(got.out, "usage: inspect FILE") || !strings.Contains(got.out, "backup TO") {
			t.Errorf("%s: %s", args, got.out)
		}
	}
}

// A file that cannot be opened is an error which says what can be done.
func TestAFileThatCannotBeOpened(t *testing.T) {
	records, _ := played(t)
	t.Chdir(t.TempDir())
	inspect(t, "state.db").want(t, exitFailed, "no such file")
	if _, err := os.Stat("state.db"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a file was made: %v", err)
	}
	write(t, records)
	s, err := bolt.Open("state.db", bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	inspect(t, "state.db", "-o", "json").want(t, exitFailed, "the file is in use: another process has state.db open: it can be inspected when that has closed it")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	reader, err := bolt.Open("state.db", bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	inspect(t, "state.db").want(t, exitDone, "")
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("state.db")
	if err != nil {
		t.Fatal(err)
	}
	b[bytes.LastIndex(b, []byte("shop-1-canary"))] ^= 1
	for _, content := range [][]byte{b, nil, []byte("something else")} {
		if err := os.WriteFile("state.db", content, 0o600); err != nil {
			t.Fatal(err)
		}
		got := inspect(t, "state.db")
		got.want(t, exitFailed, "the file is damaged")
		if got.out != "" {
			t.Errorf("it printed %s", got.out)
		}
	}
}

// A record that cannot be read is shown as that, in every list that it belongs
// to; the others are shown as well, and the exit code tells.
func TestARecordThatCannotBeReadHidesNoOther(t *testing.T) {
	records, _ := played(t)
	for what, c := range map[string]struct {
		key    string
		change func([]byte) []byte
		// inLists are commands that show it, wholly others that stay whole.
		inLists, wholly []string
		want            string
	}{
		"a newer run": {"run/shop-1", newer, []string{"overview", "runs", "leases", "events"}, []string{"records", "run shop-2", "record run/shop-1", "plan shop-3"}, "shop-1"},
		"a damaged run": {
			"run/shop-1", damaged, []string{"overview", "runs", "leases", "events"}, []string{"records", "run shop-2", "record run/shop-1"}, "record run/shop-1 is damaged",
		},
		"a damaged placement": {
			"placement/shop", func(b []byte) []byte { return bytes.Replace(b, []byte(`"uid":`), []byte(`"udi":`), 1) },
			[]string{"overview", "events"},
			[]string{"runs", "run shop-2", "plans"},
			"record placement/shop is damaged",
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Chdir(t.TempDir())
			write(t, changed(records, c.key, c.change))
			for _, args := range c.inLists {
				for _, format := range []string{"text", "json"} {
					got := inspect(t, append([]string{"state.db", "-o", format}, strings.Fields(args)...)...)
					got.want(t, exitFailed, "could not be read")
					if all := strings.Join(strings.Fields(got.out), " "); !strings.Contains(all, c.want) || !strings.Contains(all, "shop-2") {
						t.Errorf("%s shows neither %q nor shop-2:\n%s", args, c.want, got.out)
					}
					if format == "json" {
						onlyObjects(t, got.out)
					}
				}
			}
			for _, args := range c.wholly {
				inspect(t, append([]string{"state.db"}, strings.Fields(args)...)...).want(t, exitDone, "")
			}
		})
	}
}

// A plan that is damaged is shown as that beside the others.
func TestADamagedPlanHidesNoOther(t *testing.T) {
	records, _ := played(t)
	t.Chdir(t.TempDir())
	var first string
	for _, rec := range records {
		if strings.HasPrefix(rec.Key, "plan/") && first == "" {
			first = rec.Key
		}
	}
	write(t, changed(records, first, func(b []byte) []byte { return bytes.Replace(b, []byte("sre"), []byte("dev"), 1) }))
	got := inspect(t, "state.db", "plans", "-o", "json")
	got.want(t, exitFailed, "could not be read")
	if n := strings.Count(got.out, `"error":`); n != 1 || strings.Count(got.out, "\n") != 2 {
		t.Errorf("%d of the plans are shown as unreadable:\n%s", n, got.out)
	}
}

// Nothing that may be in a Secret is shown unless asked for.
func TestSecretsAreShownOnlyWhenAskedFor(t *testing.T) {
	records, _ := played(t)
	t.Chdir(t.TempDir())
	write(t, records)
	all := []string{"overview", "runs", "plans", "journals", "events", "leases", "records", "run shop-1", "plan shop-1"}
	holding := 0
	for _, rec := range records {
		all = append(all, "record "+rec.Key)
		if bytes.Contains(rec.Value, []byte(hushed)) {
			holding++
			got := inspect(t, "state.db", "record", rec.Key, "-reveal")
			if got.want(t, exitDone, ""); !strings.Contains(got.out, hushed) {
				t.Errorf("%s is hidden with -reveal: %s", rec.Key, got.out)
			}
		}
	}
	if holding < 2 {
		t.Fatalf("only %d records hold what is secret", holding)
	}
	for _, args := range all {
		for _, format := range []string{"text", "json"} {
			got := inspect(t, append([]string{"state.db", "-o", format}, strings.Fields(args)...)...)
			if got.want(t, exitDone, ""); strings.Contains(got.out, hushed) {
				t.Errorf("%s -o %s shows a secret: %s", args, format, got.out)
			}
		}
	}
}

// What does not exist is told with what does.
func TestWhatDoesNotExist(t *testing.T) {
	records, _ := played(t)
	t.Chdir(t.TempDir())
	write(t, records)
	for args, want := range map[string]string{
		"run shop-9":           "there is no run shop-9: the file has shop-1, shop-2, shop-3",
		"plan shop-9":          "there is no run or plan shop-9: the file has shop-1, shop-2, shop-3, 0b2bbf5519a4, 54c5347872f9",
		"runs -run shop-9":     "there is no run shop-9",
		"events -run shop-9":   "there is no run shop-9",
		"leases -placement zz": "there is no placement zz: the file has shop",
		"record run/shop-9":    "there is no record run/shop-9: inspect state.db records lists them",
	} {
		inspect(t, append([]string{"state.db"}, strings.Fields(args)...)...).want(t, exitFailed, want)
	}
}

// A journal has as many events as the record that commits it says.
func TestJournalsCountWhatIsCommitted(t *testing.T) {
	records, uids := played(t)
	t.Chdir(t.TempDir())
	write(t, records)
	committed := map[string]int{}
	for _, rec := range records {
		var head struct{ Journal struct{ Events int } }
		kind, name, _ := strings.Cut(rec.Key, "/")
		if kind != "run" && kind != "placement" {
			continue
		}
		if err := json.Unmarshal(rec.Value, &head); err != nil {
			t.Fatal(err)
		}
		stream := uids[name]
		if kind == "placement" {
			stream = "placement." + name
		}
		committed[stream] = head.Journal.Events
	}
	for l := range strings.Lines(inspect(t, "state.db", "journals", "-o", "json").out) {
		var j journalInfo
		if err := json.Unmarshal([]byte(l), &j); err != nil {
			t.Fatal(err)
		}
		if want := committed[j.Stream]; j.Events != want || want == 0 {
			t.Errorf("journal %s has %d events, want %d", j.Stream, j.Events, want)
		}
		delete(committed, j.Stream)
	}
	if len(committed) > 0 {
		t.Errorf("journals are missing: %v", committed)
	}
}

// A backup is a file with the same records; one that exists is not touched.
func TestABackupIsANewFileWithAllRecords(t *testing.T) {
	records, _ := played(t)
	t.Chdir(t.TempDir())
	write(t, records)
	got := inspect(t, "state.db", "backup", "copy.db", "-o", "json")
	got.want(t, exitDone, "")
	onlyObjects(t, got.out)
	want := inspect(t, "state.db", "records")
	if there := inspect(t, "copy.db", "records"); there != want {
		t.Errorf("the backup has %s\nwant %s", there.out, want.out)
	}
	info, err := os.Stat("copy.db")
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup is %v, %v: want one that only its owner reads", info, err)
	}
	for _, to := range []string{"copy.db", "state.db"} {
		inspect(t, "state.db", "backup", to).want(t, exitFailed, to+" exists: a backup is made to a new file")
	}
	inspect(t, "state.db", "backup", "none/copy.db").want(t, exitFailed, "none/copy.db")
	if again := inspect(t, "copy.db", "records"); again != want {
		t.Errorf("a refused backup changed the file that was there: %+v", again)
	}
}

// An empty store is shown as empty.
func TestAnEmptyStore(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, nil)
	for _, args := range []string{"overview", "runs", "plans", "journals", "events", "leases", "records"} {
		got := inspect(t, "state.db", args)
		if got.want(t, exitDone, ""); got.out == "" {
			t.Errorf("%s prints nothing", args)
		}
		got = inspect(t, "state.db", args, "-o", "json")
		if got.want(t, exitDone, ""); args != "overview" && got.out != "" {
			t.Errorf("%s: %s", args, got.out)
		}
	}
}

// Text from a store cannot do anything to a terminal, and is on lines that fit.
func TestHostileTextIsMadeVisible(t *testing.T) {
	var out bytes.Buffer
	p := page{out: &out}
	evil := "a\x1b[2J\u009b\u202e\r\n\U000E0001b"
	p.para(2, "  "+strings.Repeat("word ", 40)+evil)
	p.table([]string{"NAME", "MORE"}, []row{{cells: []string{evil, strings.Repeat("x", 70)}, remarks: []string{evil}}})
	p.object(map[string]string{"evil": evil})
	for _, bad := range []string{"\x1b", "\u009b", "\u202e", "\r", "\U000E0001"} {
		if strings.Contains(out.String(), bad) {
			t.Errorf("%q is printed: %q", bad, out.String())
		}
	}
	text, object, _ := strings.Cut(out.String(), "{")
	fits(t, "text", strings.ReplaceAll(text, strings.Repeat("x", 70), "x"))
	var back map[string]string
	if err := json.Unmarshal([]byte("{"+object), &back); err != nil || back["evil"] != evil {
		t.Errorf("the object is %q, %v", back, err)
	}
}
