//go:build !unix

package watch

import tea "charm.land/bubbletea/v2"

// stopper does nothing where processes are not suspended.
type stopper struct{}

func newStopper() *stopper { return &stopper{} }

func (*stopper) watch(*tea.Program) {}

func (*stopper) ask() tea.Msg { return nil }

func (*stopper) end() {}
