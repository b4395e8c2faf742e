package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/serving"
)

// ServeOptions are the options of [Serve].
type ServeOptions struct {
	Options
	// Store is the path of the engine's store, which this process must hold open. [Serve] writes
	// its address to the file Store + ".serve", and [Find] reads it there. Empty announces nothing.
	Store string
	// Listener accepts the connections. [Serve] closes it. It is served in plain text unless TLS is
	// set; a listener that is reachable from other machines needs TLS or a proxy with TLS.
	//
	// nil listens on a unix socket in a directory that only the process's user can access. A caller
	// that can connect to it can also write the store's file. So without an Authenticate function,
	// such a socket uses [Impersonated] and allows changes.
	Listener net.Listener
	// TLS has the certificate for the Listener, which clients must trust; nil for plain text.
	TLS *tls.Config
	// Ready is called with the address once the engine answers there; may be nil.
	Ready func(address string)
}

const (
	announcement = ".serve"
	unixScheme   = "unix:"
	// connecting is the time limit to connect to the program that holds a store.
	connecting = 5 * time.Second
)

// Serve serves the API of an engine until ctx ends, which is not an error. It announces its address
// beside the file of the store, replaces the announcement of a killed process, and removes its own
// at the end. It runs beside [fleet.Engine.Start], and must end before the store is closed.
//
// Slow or numerous clients cannot keep others out. The limits are 5 s for headers, 30 s for a body,
// 30 s for each 64 KiB of an answer, and 60 s for a connection without a request. At most 1,024
// connections are open, at most 256 of them from one address; beyond that, a new connection
// replaces the oldest one without a request. Streams last as long as their clients read them. A
// host that mounts [NewHandler] on its own server must set such limits itself, but no WriteTimeout,
// because that would end streams.
func Serve(ctx context.Context, e *fleet.Engine, o ServeOptions) error {
	ln := o.Listener
	if ln == nil {
		dir, err := os.MkdirTemp("", "slipway-") // with permissions 0700
		if err != nil {
			return fmt.Errorf("httpapi: a directory for the socket: %w", err)
		}
		defer func() { _ = os.Remove(dir) }()
		if ln, err = net.Listen("unix", filepath.Join(dir, "api")); err != nil {
			return fmt.Errorf("httpapi: the socket: %w", err)
		}
		if o.Authenticate == nil {
			o.Authenticate = Impersonated()
		}
	}
	defer func() { _ = ln.Close() }()
	at := "http://" + reachable(ln.Addr())
	switch {
	case ln.Addr().Network() == "unix":
		at = unixScheme + ln.Addr().String()
	case o.TLS != nil:
		at = "https://" + reachable(ln.Addr())
	}
	h, err := NewHandler(e, o.Options)
	if err != nil {
		return err
	}
	if o.Store != "" {
		withdraw, err := announce(o.Store, at)
		if err != nil {
			return err
		}
		defer withdraw()
	}
	if o.Ready != nil { // from here on, the system accepts connections
		o.Ready(at)
	}
	if err := serving.Serve(ctx, ln, h, serving.Options{TLS: o.TLS, Log: o.Log}); err != nil {
		return fmt.Errorf("httpapi: %w", err)
	}
	return nil
}

// reachable returns the address of a listener for a client on the same machine.
func reachable(a net.Addr) string {
	tcp, is := a.(*net.TCPAddr)
	if is && tcp.IP.IsUnspecified() {
		return net.JoinHostPort("localhost", strconv.Itoa(tcp.Port))
	}
	return a.String()
}

// LocalUser returns the name of the process's user, or uid:NUMBER if the system has no name. It is
// the identity that [Impersonated] gives to a request that names none.
func LocalUser() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "uid:" + strconv.Itoa(os.Getuid())
}

// Impersonated authenticates a request as the identity in its headers Impersonate-User and
// Impersonate-Group, or else as the user of this process. Use it only for callers that could also
// write the engine's store: the process itself, and clients of a unix socket of one user.
func Impersonated() func(*http.Request) (approval.Identity, error) {
	otherwise := approval.Identity{Name: LocalUser()}
	return func(r *http.Request) (approval.Identity, error) {
		if name := r.Header.Get(userHeader); name != "" {
			return approval.Identity{Name: name, Groups: r.Header[groupHeader]}, nil
		}
		return otherwise, nil
	}
}

// announced is the content of the announcement beside a store. None of it is secret.
type announced struct {
	Address string `json:"address"`
	PID     int    `json:"pid"`
}

// announce writes the address of a store's holder, and returns a function that removes it again.
// Because the caller holds the store, an existing announcement belongs to a process that has ended.
func announce(store, address string) (withdraw func(), err error) {
	text, err := json.Marshal(announced{address, os.Getpid()})
	if err != nil {
		return nil, err
	}
	if old, err := Find(store); err != nil && old != "" {
		if socket, is := strings.CutPrefix(old, unixScheme); is { // the socket of a killed process
			_ = os.Remove(socket)
			_ = os.Remove(filepath.Dir(socket))
		}
	}
	path := store + announcement
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+"-*") // with permissions 0600
	if err == nil {
		_, err = f.Write(text)
		err = errors.Join(err, f.Close())
		if err == nil {
			err = os.Rename(f.Name(), path)
		}
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("httpapi: announcing the address of the store: %w", err)
	}
	return func() {
		if now, err := os.ReadFile(path); err == nil && bytes.Equal(now, text) {
			_ = os.Remove(path)
		}
	}, nil
}

// ErrStale is matched by the error of [Find] if the process that announced the address has ended.
var ErrStale = errors.New("the process that announced it has ended")

// Find returns the address, for [NewClient], at which the process that has a store open answers. It
// trusts the announced address only if no other user of the machine can have written the file;
// otherwise another user's program could receive the requests. The error matches fs.ErrNotExist if
// nothing is announced. If no process answers at the announced address, Find returns the address
// and an error that matches [ErrStale].
func Find(store string) (address string, err error) {
	path := store + announcement
	text, err := readOwned(path)
	if err != nil {
		return "", err
	}
	var a announced
	if err := json.Unmarshal(text, &a); err != nil || a.Address == "" {
		return "", fmt.Errorf("%s has no address of the store: remove it", path)
	}
	socket, is := strings.CutPrefix(a.Address, unixScheme)
	network, to := "unix", socket
	if is {
		if err := private(filepath.Dir(socket)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("%s: %w", path, err)
		}
	} else {
		_, to, _ = strings.Cut(a.Address, "://")
		network = "tcp"
	}
	conn, err := net.DialTimeout(network, to, connecting)
	if err != nil {
		return a.Address, fmt.Errorf("%s: process %d at %s: %w: %w", path, a.PID, a.Address, ErrStale, err)
	}
	return a.Address, conn.Close()
}

// readOwned reads a regular file that no other user can have written.
func readOwned(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || !isOwned(info) || info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("%s may be written by another user: remove it", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if opened, err := f.Stat(); err != nil || !os.SameFile(info, opened) {
		return nil, cmp.Or(err, fmt.Errorf("%s was replaced", path))
	}
	text := make([]byte, 4096)
	n, err := f.Read(text)
	return text[:n], err
}

// private checks that only the process's user can access a directory.
func private(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() || !isOwned(info) || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("other users may write to %s", dir)
	}
	return nil
}
