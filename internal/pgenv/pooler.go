//go:build unix

package pgenv

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// errNoPooler names the package to install.
var errNoPooler = errors.New("pgenv: no PgBouncer was found: install it (apt-get install pgbouncer)")

// poolerConfig is the configuration of a PgBouncer: the ports of the server and its own, how many
// connections it has to the server, and its log. Clients need no password and are the user
// postgres.
const poolerConfig = `[databases]
* = host=127.0.0.1 port=%d user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = %d
max_client_conn = 1000
logfile = %s
`

// Pooler is a PgBouncer before a server, which pools its connections by transaction.
type Pooler struct {
	// Port is the port of the pooler on 127.0.0.1.
	Port int

	root string
	cmd  *exec.Cmd
	done <-chan struct{}
}

// Pooler starts a PgBouncer in front of the server, with the given number of connections to the
// server.
func (s *Server) Pooler(connections int) (*Pooler, error) {
	program, err := poolerProgram()
	if err != nil {
		return nil, err
	}
	p := &Pooler{}
	if p.root, err = os.MkdirTemp("", "slipway-pgbouncer-"); err != nil {
		return nil, fmt.Errorf("pgenv: %w", err)
	}
	if err = s.account.own(p.root); err == nil {
		p.Port, err = freePort()
	}
	if err == nil {
		err = p.launch(s, program, connections)
	}
	if err == nil {
		err = p.await()
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// poolerProgram returns the path of PgBouncer, which distributions install where daemons are.
func poolerProgram() (string, error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if program, err := exec.LookPath(name); err == nil {
			return program, nil
		}
	}
	return "", errNoPooler
}

func (p *Pooler) launch(s *Server, program string, connections int) error {
	file := filepath.Join(p.root, "pgbouncer.ini")
	config := fmt.Sprintf(poolerConfig, s.Port, p.Port, connections, p.log())
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil { //nolint:gosec // the account of the server must read the file
		return fmt.Errorf("pgenv: %w", err)
	}
	p.cmd = exec.Command(program, "-q", file)
	p.cmd.Dir = p.root
	s.account.as(p.cmd, true)
	var err error
	if p.done, err = start(p.cmd); err != nil {
		return fmt.Errorf("pgenv: start: %w", err)
	}
	return nil
}

// log is the file of the log.
func (p *Pooler) log() string { return filepath.Join(p.root, "log") }

// await returns once the pooler takes connections.
func (p *Pooler) await() error {
	for end := time.Now().Add(readyWithin); ; {
		if c, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Port)), time.Second); err == nil {
			return c.Close()
		}
		select {
		case <-p.done:
		case <-time.After(pollEvery):
			if time.Now().Before(end) {
				continue
			}
		}
		log, _ := os.ReadFile(p.log()) // without it the error says less
		return fmt.Errorf("pgenv: PgBouncer does not take connections; its log:\n%s", log)
	}
}

// DSN returns a connection string of the superuser through the pooler. Prepared statements of a
// connection are not there in the next transaction, unless PgBouncer is of version 1.21 or newer
// and has max_prepared_statements.
func (p *Pooler) DSN() string {
	return fmt.Sprintf("host=127.0.0.1 port=%d user=postgres dbname=postgres sslmode=disable default_query_exec_mode=exec", p.Port)
}

// Close ends the pooler and removes its directory.
func (p *Pooler) Close() error {
	if p.done != nil {
		_ = kill(p.cmd.Process.Pid) // it may have ended
		<-p.done
	}
	return os.RemoveAll(p.root)
}
