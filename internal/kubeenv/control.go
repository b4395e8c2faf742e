package kubeenv

import (
	"context"
	"errors"
	"fmt"
)

// Stop asks the server to end and waits for its end: the server completes running requests, ends
// watches, and refuses new connections. If the context ends first, Stop kills the server and
// returns an error. Stop has no effect on a stopped server.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.stop(ctx)
}

// Kill ends the server immediately, like a crash: a running request may have taken effect or not.
// Its objects persist. Kill has no effect on a stopped server.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.kill()
}

// Restart stops the server if it runs and starts it again, with the same address, keys and objects.
// It returns when it is ready.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.process.stop(ctx); err != nil {
		return err
	}
	return s.run(ctx)
}

// Pause stops the server without ending it: connections stay open, new ones are taken by the
// operating system, and no request is answered before Resume.
func (s *Server) Pause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.pause()
}

// Resume continues a paused server; it has no effect on other servers.
func (s *Server) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process.resume()
}

// end kills all that belongs to the server.
func (s *Server) end() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var problems []error
	for _, p := range []*process{s.controllers, s.process} {
		if p != nil {
			problems = append(problems, p.kill())
		}
	}
	return errors.Join(problems...)
}

// Pid returns the process of the server, which may have ended.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.cmd.Process.Pid
}

// String names the server as in errors.
func (s *Server) String() string { return fmt.Sprintf("%s (%s)", s.name, s.URL()) }
