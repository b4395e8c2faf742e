//go:build unix

package watch

import (
	"os"
	"os/signal"
	"sync"
	"syscall"

	tea "charm.land/bubbletea/v2"
)

// stopper suspends the program when it is asked to stop, by the key or by a signal from outside: the terminal is
// given back before, and taken again after. While the signal is caught the process does not stop by it, so it is
// not caught from then until the program has resumed.
type stopper struct {
	signals chan os.Signal
	ended   chan struct{}
	running sync.WaitGroup
}

func newStopper() *stopper {
	return &stopper{signals: make(chan os.Signal, 1), ended: make(chan struct{})}
}

func (s *stopper) watch(p *tea.Program) {
	s.again()
	s.running.Go(func() {
		for {
			select {
			case <-s.ended:
				return
			case <-s.signals:
				p.Send(s.suspend())
			}
		}
	})
}

func (s *stopper) again() { signal.Notify(s.signals, syscall.SIGTSTP) }

func (s *stopper) suspend() tea.Msg {
	signal.Stop(s.signals)
	return tea.SuspendMsg{}
}

func (s *stopper) end() {
	signal.Stop(s.signals)
	close(s.ended)
	s.running.Wait()
}
