//go:build unix

package pgenv

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// readyWithin is the maximum duration of a start on a busy machine.
	readyWithin = 60 * time.Second
	// portTries is the number of attempts with other ports if another process takes the free port
	// first.
	portTries = 5
	pollEvery = 20 * time.Millisecond
	tailBytes = 4 << 10
)

// Options say how a server is started. The zero value is a server of its own in a temporary
// directory.
type Options struct {
	// Settings are lines of postgresql.conf.
	Settings []string
	// Dir is an empty directory for the data; "" is a temporary directory, which Close removes.
	Dir string
}

// Server is a PostgreSQL server.
type Server struct {
	// Port is the port of the server on 127.0.0.1.
	Port int

	programs string
	account  *account
	root     string // holds data and log
	remove   bool
	cmd      *exec.Cmd
	done     <-chan struct{} // closed when the postmaster has ended; nil before the first start
}

// Start makes a database cluster and starts its server. The user postgres is its superuser,
// without a password.
func Start(o Options) (*Server, error) {
	s, err := newServer(o.Dir)
	if err != nil {
		return nil, err
	}
	err = s.run("initdb", "-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions")
	if err == nil {
		err = s.configure(append([]string{
			"listen_addresses = '127.0.0.1'", "unix_socket_directories = ''", "fsync = on", "synchronous_commit = on",
			"max_connections = 200", "shared_buffers = 64MB", "wal_level = replica", "max_wal_senders = 8",
			"log_line_prefix = '%m [%p] '", "restart_after_crash = on", "wal_sender_timeout = 5s",
		}, o.Settings...))
	}
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// newServer prepares the directory of a server.
func newServer(dir string) (*Server, error) {
	programs, err := Programs()
	if err != nil {
		return nil, err
	}
	a, err := serverAccount()
	if err != nil {
		return nil, err
	}
	s := &Server{programs: programs, account: a, root: dir}
	if dir == "" {
		s.remove = true
		if s.root, err = os.MkdirTemp("", "slipway-postgres-"); err != nil {
			return nil, fmt.Errorf("pgenv: %w", err)
		}
	}
	if err := a.own(s.root); err != nil {
		return nil, fmt.Errorf("pgenv: %w", errors.Join(err, s.Close()))
	}
	return s, nil
}

// DSN returns a connection string of the superuser.
func (s *Server) DSN() string {
	return fmt.Sprintf("host=127.0.0.1 port=%d user=postgres dbname=postgres sslmode=disable", s.Port)
}

// data returns the directory of the data.
func (s *Server) data() string { return filepath.Join(s.root, "data") }

// Log returns the end of the server's log.
func (s *Server) Log() string {
	b, err := os.ReadFile(filepath.Join(s.root, "log"))
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-tailBytes):])
}

// run runs one of the programs to its end.
func (s *Server) run(program string, args ...string) error {
	return s.runProgram(filepath.Join(s.programs, program), args...)
}

// runProgram runs any program as the user of the server.
func (s *Server) runProgram(program string, args ...string) error {
	c := exec.Command(program, args...)
	c.Dir = s.root
	s.account.as(c, false)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("pgenv: %s: %w: %s", program, err, out)
	}
	return nil
}

// configure adds lines to postgresql.conf.
func (s *Server) configure(lines []string) error {
	f, err := os.OpenFile(filepath.Join(s.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("pgenv: %w", err)
	}
	_, err = f.WriteString("\n" + strings.Join(lines, "\n") + "\n")
	return errors.Join(err, f.Close())
}

// Set changes settings that take effect without a restart.
func (s *Server) Set(lines ...string) error {
	if err := s.configure(lines); err != nil {
		return err
	}
	return s.signal(reload)
}

func (s *Server) signal(sig syscall.Signal) error {
	if s.ended() {
		return errors.New("pgenv: the server is not running")
	}
	return s.cmd.Process.Signal(sig)
}

// Start starts the server after Stop or Kill, on the port that it had, and returns when it takes
// connections.
func (s *Server) Start() error {
	for try := 0; ; try++ {
		port := s.Port
		if port == 0 {
			var err error
			if port, err = freePort(); err != nil {
				return err
			}
		}
		err := s.launch(port)
		if err == nil {
			err = s.await(port)
		}
		if err == nil {
			s.Port = port
			return nil
		}
		if !errors.Is(err, errAgain) || try == portTries {
			return err
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// errAgain is the end of a server whose port was taken, or whose predecessor has processes that
// have not ended.
var errAgain = errors.New("pgenv: the server could not start yet")

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("pgenv: free port: %w", err)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

func (s *Server) launch(port int) error {
	log, err := os.OpenFile(filepath.Join(s.root, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("pgenv: log: %w", err)
	}
	c := exec.Command(filepath.Join(s.programs, "postgres"), "-D", s.data(), "-p", strconv.Itoa(port))
	c.Dir, c.Stdout, c.Stderr = s.root, log, log
	s.account.as(c, true)
	done, err := start(c)
	if err := errors.Join(err, log.Close()); err != nil {
		return fmt.Errorf("pgenv: start: %w", err)
	}
	s.cmd, s.done = c, done
	return nil
}

// start starts a program that ends with this process. The channel is closed when it has ended.
func start(c *exec.Cmd) (<-chan struct{}, error) {
	done, started := make(chan struct{}), make(chan error)
	// Linux treats the end of the thread that started a child as the end of the parent.
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.Start()
		started <- err
		if err == nil {
			_ = c.Wait() // the log says why it ended
			close(done)
		}
	}()
	return done, <-started
}

// await returns once the server takes connections.
func (s *Server) await(port int) error {
	for end := time.Now().Add(readyWithin); ; time.Sleep(pollEvery) {
		if s.ready(port) {
			return nil
		}
		if s.ended() {
			log := s.Log()
			for _, again := range []string{"Address already in use", "is still in use", "another server might be running"} {
				if strings.Contains(log, again) {
					return fmt.Errorf("%w; the end of its log:\n%s", errAgain, log)
				}
			}
			return fmt.Errorf("pgenv: PostgreSQL ended before it was ready; the end of its log:\n%s", log)
		}
		if time.Now().After(end) {
			return fmt.Errorf("pgenv: PostgreSQL is not ready after %s; the end of its log:\n%s", readyWithin, s.Log())
		}
	}
}

// ready reports whether the postmaster has written that it takes connections, and does.
func (s *Server) ready(port int) bool {
	b, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	lines := bytes.Split(b, []byte("\n"))
	if err != nil || len(lines) < 8 || !bytes.HasPrefix(lines[7], []byte("ready")) || string(lines[0]) != strconv.Itoa(s.cmd.Process.Pid) {
		return false
	}
	c, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), time.Second)
	if err != nil {
		return false
	}
	return c.Close() == nil
}

func (s *Server) ended() bool {
	if s.done == nil {
		return true
	}
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// Stop ends the server as an operator does, with its sessions.
func (s *Server) Stop() error {
	if s.ended() {
		return nil
	}
	if err := s.signal(fastShutdown); err != nil {
		return err
	}
	select {
	case <-s.done:
		return nil
	case <-time.After(readyWithin):
		return errors.Join(fmt.Errorf("pgenv: the server did not stop within %s", readyWithin), s.Kill())
	}
}

// Kill ends all processes of the server with SIGKILL, as the loss of the machine would, but for
// the disk's cache.
func (s *Server) Kill() error {
	if s.ended() {
		return nil
	}
	postmaster := s.cmd.Process.Pid
	children := childrenOf(postmaster)
	err := kill(postmaster)
	for _, pid := range children {
		_ = kill(pid) // it may have ended
	}
	<-s.done
	return err
}

// KillBackend ends the process of one session with SIGKILL. The server ends all sessions and
// recovers.
func (s *Server) KillBackend(pid int) error { return kill(pid) }

// Processes returns the processes of the server, the postmaster first.
func (s *Server) Processes() []int {
	return append([]int{s.cmd.Process.Pid}, childrenOf(s.cmd.Process.Pid)...)
}

// LimitFiles sets how large files may be that the server writes, in the words of prlimit: bytes,
// or unlimited.
func (s *Server) LimitFiles(bytes string) error {
	for _, pid := range s.Processes() {
		if err := s.runProgram("prlimit", "--pid", strconv.Itoa(pid), "--fsize="+bytes+":"); err != nil && syscall.Kill(pid, 0) == nil {
			return err
		}
	}
	return nil
}

// childrenOf returns the children of a process.
func childrenOf(parent int) []int {
	out, _ := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output() // without ps the children end a moment later by themselves
	var pids []int
	for line := range strings.Lines(string(out)) {
		var pid, ppid int
		if _, err := fmt.Sscan(line, &pid, &ppid); err == nil && ppid == parent {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Standby makes a copy of the server that follows it under this application name, and starts it.
func (s *Server) Standby(name string) (*Server, error) {
	standby, err := newServer("")
	if err != nil {
		return nil, err
	}
	err = standby.run("pg_basebackup", "-D", standby.data(), "-R", "-X", "stream", "-c", "fast", "--no-sync", "-d", s.DSN()+" application_name="+name)
	if err == nil {
		err = standby.Start()
	}
	if err != nil {
		return nil, errors.Join(err, standby.Close())
	}
	return standby, nil
}

// Promote makes a standby a primary, on a new timeline.
func (s *Server) Promote() error {
	return s.run("pg_ctl", "promote", "-D", s.data(), "-w", "-t", "60")
}

// Close ends the server and removes its directory.
func (s *Server) Close() error {
	err := s.Kill()
	if s.remove {
		err = errors.Join(err, os.RemoveAll(s.root))
	}
	return err
}
