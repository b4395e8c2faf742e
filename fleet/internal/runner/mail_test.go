package runner

import (
	"fmt"
	"slices"
	"testing"

	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages/step"
)

// Mail names each unread command once. Beyond sixteen, or after addAll, it only says that all
// commands must be read.
func TestMailNamesUnreadCommands(t *testing.T) {
	var m mail
	if !m.isEmpty() {
		t.Error("new mail is not empty")
	}
	m.add("a")
	m.add("b")
	m.add("a")
	if keys, all := m.take(); all || !slices.Equal(keys, []string{"a", "b"}) {
		t.Errorf("unread are %q, all: %t", keys, all)
	}
	if keys, all := m.take(); all || keys != nil || !m.isEmpty() {
		t.Errorf("unread are %q again, all: %t", keys, all)
	}
	m.add("a")
	m.addAll()
	m.add("b")
	if keys, all := m.take(); !all || keys != nil {
		t.Errorf("unread are %q, all: %t, and all was reported", keys, all)
	}
	for i := range commandsAtOnce + 1 {
		m.add(fmt.Sprint(i))
	}
	if keys, all := m.take(); !all || keys != nil {
		t.Errorf("unread are %q, all: %t, of more than a step takes", keys, all)
	}
}

// A command that is read alone joins the commands that wait for a step, once, and only if the run
// has not processed it.
func TestACommandIsAddedOnce(t *testing.T) {
	in, run := newInput(), &step.Run{}
	run.Form(runstate.Key{}).Seen = []string{"old"}
	cs, all := stored("old", "a", "")
	in.setCommands(cs, all, run)
	again, records := stored("old", "a", "", "b")
	in.addCommands(again, records, run)
	if len(in.Commands) != 2 || in.Commands[1].ID != "b" || len(in.stored) != 4 {
		t.Errorf("commands %+v, records %+v", in.Commands, in.stored)
	}
}
