package runner

import "testing"

// A reader gets the value that was put last, and gets it once.
func TestTheLatestValueIsTakenOnce(t *testing.T) {
	l := newLatest[int]()
	if v, isNew := l.take(); isNew {
		t.Errorf("took %d before there was one", v)
	}
	l.put(1)
	l.put(2)
	if v, isNew := l.take(); v != 2 || !isNew {
		t.Errorf("took %d, %t", v, isNew)
	}
	if v, isNew := l.take(); isNew {
		t.Errorf("took %d again", v)
	}
}
