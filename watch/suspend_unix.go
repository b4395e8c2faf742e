//go:build unix

package watch

import (
	"os"
	"os/signal"
	"sync"
	"syscall"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/sys/unix"
)

// stopper suspends the program when it is asked to, by the key or by a signal from outside: the terminal is given back
// before, and taken again after. Bubble Tea does so for the key alone, and by a signal that stops nothing once it
// was caught.
type stopper struct {
	signals chan os.Signal
	ended   chan struct{}
	running sync.WaitGroup
}

func newStopper() *stopper {
	return &stopper{signals: make(chan os.Signal, 1), ended: make(chan struct{})}
}

func (s *stopper) watch(p *tea.Program) {
	signal.Notify(s.signals, syscall.SIGTSTP)
	s.running.Go(func() {
		for {
			select {
			case <-s.ended:
				return
			case <-s.signals:
				suspend(p)
			}
		}
	})
}

// ask asks for the program to be suspended.
func (s *stopper) ask() tea.Msg {
	select {
	case s.signals <- syscall.SIGTSTP:
	default: // it is being suspended
	}
	return nil
}

func (s *stopper) end() {
	signal.Stop(s.signals)
	close(s.ended)
	s.running.Wait()
}

// suspend stops the job that the program is, until it is resumed. A program that no shell controls is not stopped:
// nothing would resume it.
func suspend(p *tea.Program) {
	if sid, err := unix.Getsid(0); err != nil || sid == unix.Getpgrp() {
		return
	}
	resumed := make(chan os.Signal, 1)
	signal.Notify(resumed, syscall.SIGCONT)
	defer signal.Stop(resumed)
	if err := p.ReleaseTerminal(); err != nil {
		return
	}
	if syscall.Kill(0, syscall.SIGSTOP) == nil {
		<-resumed
	}
	_ = p.RestoreTerminal()
	p.Send(tea.ClearScreen())
}
