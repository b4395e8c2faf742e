package postgres

import (
	"io"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/slipway-dev/slipway/backend"
)

func TestParseRevision(t *testing.T) {
	for public, want := range map[backend.Revision]revision{
		"":                       {},
		"7-000000000000000a":     {7, 10},
		"7-ffffffffffffffff":     {7, -1},
		"1":                      {seq: seqInvalid},
		"7-a":                    {seq: seqInvalid},
		"07-000000000000000a":    {seq: seqInvalid},
		"0-000000000000000a":     {seq: seqInvalid},
		"-2-000000000000000a":    {seq: seqInvalid},
		"7-000000000000000a-":    {seq: seqInvalid},
		"7-00000000000000000a":   {seq: seqInvalid},
		"7-000000000000000A":     {seq: seqInvalid},
		"99999999999999999999-0": {seq: seqInvalid},
	} {
		if got := parseRevision(public); got != want {
			t.Errorf("%q is %v, want %v", public, got, want)
		}
		if want.seq > 0 && want.public() != public {
			t.Errorf("%v is written %q, want %q", want, want.public(), public)
		}
	}
}

// Only the server's own word means that a transaction did nothing: a pooler has no severity that
// is not translated.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want bool
	}{
		{"the server", &pgconn.PgError{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: "55P03"}, true},
		{"the server, in another language", &pgconn.PgError{Severity: "FEHLER", SeverityUnlocalized: "ERROR", Code: "55P03"}, true},
		{"the end of the session", &pgconn.PgError{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: "57P01"}, false},
		{"a pooler", &pgconn.PgError{Severity: "ERROR", Code: "08006"}, false},
		{"a pooler that says all", &pgconn.PgError{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: "08P01"}, false},
		{"the loss of the connection", io.ErrUnexpectedEOF, false},
	} {
		if got := refused(c.err); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// A write counts as lost only if the state of the server cannot include it.
func TestLosses(t *testing.T) {
	written := ack{revision: revision{seq: 10, nonce: 1}, xid: 100}
	deleted := ack{revision: revision{seq: 10, nonce: 1}, xid: 100, deleted: true}
	row := func(seq, nonce, previous int64) kept {
		return kept{revision: revision{seq, nonce}, exists: true, previous: previous}
	}
	for _, c := range []struct {
		name string
		ack  ack
		kept kept
		want bool
	}{
		{"the write", written, row(10, 1, 9), false},
		{"the deletion", deleted, row(10, 1, 9), false},
		{"a write that follows on it", written, row(12, 5, 10), false},
		{"several writes behind it", written, row(15, 5, 13), false},
		{"the write before", written, row(9, 4, 8), true},
		{"another write of the same number", written, row(10, 2, 9), true},
		{"a higher write that follows on the one before", written, row(42, 5, 9), true},
		{"a higher write that is the first", written, row(42, 5, 0), true},
		{"no row, and no deletion was removed", written, kept{purged: 0}, true},
		{"no row, and only older deletions were removed", written, kept{purged: 100}, true},
		{"no row, and a later deletion may have been removed", written, kept{purged: 101}, false},
		{"no row of a deleted key", deleted, kept{purged: 0}, false},
	} {
		if got := c.kept.loses(c.ack); got != c.want {
			t.Errorf("%s: lost is %t, want %t", c.name, got, c.want)
		}
	}
}

func TestSnapshotsAreCut(t *testing.T) {
	for text, want := range map[string]string{
		"10:20:10,15": "10:13:10",
		"10:13:10":    "10:13:10",
		"30:40:30":    "13:13:",
		"5:9:5,7":     "5:9:5,7",
		"12:13:12":    "12:13:12",
		"10:14:10,13": "10:13:10",
		"100:100:":    "13:13:",
		"9:200:9,12,": "9:13:9,12",
	} {
		s, err := parseSnapshot(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.cut(12).String(); got != want {
			t.Errorf("%s cut at 12 is %s, want %s", text, got, want)
		}
	}
	for _, text := range []string{"", "1:2", "x:2:", "1:x:", "1:2:x"} {
		if _, err := parseSnapshot(text); err == nil {
			t.Errorf("%q is taken for a snapshot", text)
		}
	}
}

// Waiting puts are sent in the order of their arrival, within the limits of a transaction,
// without canceled ones. A second transaction starts while the first one runs, once as many puts
// wait as the first one has.
func TestGroupCommitTakesWaitingPuts(t *testing.T) {
	var g group
	puts := func(n, size int) (made []*put) {
		for range n {
			made = append(made, &put{writes: &single{value: make([]byte, size)}})
		}
		return made
	}
	begin := func(puts ...*put) (sent []*put) {
		for _, p := range puts {
			if len(sent) > 0 {
				t.Errorf("%d puts were sent before others came", len(sent))
			}
			sent = g.begin(p)
		}
		return sent
	}
	takes := func(when string, got, want []*put) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d puts were sent, want %d", when, len(got), len(want))
		}
	}
	first := puts(transactions, 1)
	for i := range first {
		takes("nothing waits", begin(first[i]), first[i:i+1])
	}
	small, large, last := puts(groupPuts+1, 1), puts(3, groupBytes/2), puts(1, 1)
	one, several := small[0].writes.(*single), &batch{values: [][]byte{{0}, nil}}
	small[1].writes = several
	callers := [][]byte{one.value, several.values[0]}
	takes("as many are sent as may be", begin(slices.Concat(small, large)...), nil)
	callers[0][0], callers[1][0] = 1, 1
	if one.value[0] != 0 || several.values[0][0] != 0 || several.values[1] != nil {
		t.Error("a put that waits has the values of its caller, which may change them")
	}
	g.leave(small[2])
	small = slices.Delete(slices.Clone(small), 2, 3)
	takes("one has ended", g.end(1), small)
	takes("fewer wait than are sent", g.end(1), nil)
	takes("none is sent any more", g.end(len(small)), large[:2])
	takes("as many wait as are sent", begin(last...), []*put{large[2], last[0]})
	takes("none waits", g.end(2), nil)
	takes("none waits, none is sent", g.end(2), nil)
	if g.sending != 0 || g.within != 0 {
		t.Errorf("%d transactions of %d puts are counted that have ended", g.sending, g.within)
	}
}
