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

// ServeOptions say where an engine answers.
type ServeOptions struct {
	Options
	// Store is the file of the engine's store, which this process holds open: beside it, in Store + ".serve", stands
	// where the engine answers, and a client finds it there by [Find]. Empty announces nothing.
	Store string
	// Listener is where the engine answers: in clear unless TLS is set, or a proxy with TLS is in front of one that leaves
	// the machine. [Serve] closes it. nil is a unix socket in a directory of the process's user: no other user can connect to it,
	// and one who can could write the file of the store as well. So an Authenticate that is nil then stands for
	// [Impersonated], and not for reading only.
	Listener net.Listener
	// TLS, where it is not nil, has the certificate that Listener is served with, which clients have to trust.
	TLS *tls.Config
	// Ready, where it is not nil, is called with the address once the engine answers there.
	Ready func(address string)
}

const (
	announcement = ".serve"
	unixScheme   = "unix:"
	// connecting is how long the program that holds a store may take to accept a connection.
	connecting = 5 * time.Second
)

// Serve answers with the API of an engine until ctx ends, whose end is no error. What it announces beside the file of
// the store it removes at its end; what a killed process left there it replaces. It runs beside [fleet.Engine.Start],
// and ends before the store is closed.
//
// Clients that say nothing or come in great number do not keep others out: headers may take 5 s, a body 30 s, 64 KiB of an
// answer 30 s, and a connection without a request 60 s. At most 1,024 connections are open, 256 of one address; then a new
// one replaces the oldest one that has no request. Streams last as long as their clients read them. A host that mounts
// [NewHandler] on a server of its own sets such bounds there, and no WriteTimeout, which would end streams.
func Serve(ctx context.Context, e *fleet.Engine, o ServeOptions) error {
	ln := o.Listener
	if ln == nil {
		dir, err := os.MkdirTemp("", "slipway-") // of permissions 0700
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
	if o.Ready != nil { // connections are accepted by the system from now on
		o.Ready(at)
	}
	if err := serving.Serve(ctx, ln, h, serving.Options{TLS: o.TLS, Log: o.Log}); err != nil {
		return fmt.Errorf("httpapi: %w", err)
	}
	return nil
}

// reachable is the address of a listener as a client on the machine uses it.
func reachable(a net.Addr) string {
	tcp, is := a.(*net.TCPAddr)
	if is && tcp.IP.IsUnspecified() {
		return net.JoinHostPort("localhost", strconv.Itoa(tcp.Port))
	}
	return a.String()
}

// LocalUser is the name of the user of the process, or uid:NUMBER where the system has none: the identity that
// [Impersonated] gives a request which names no other.
func LocalUser() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "uid:" + strconv.Itoa(os.Getuid())
}

// Impersonated authenticates requests by what they say: the headers Impersonate-User and Impersonate-Group, or else
// the user of this process. It is for callers that could as well write what the engine stores: those of a unix socket
// of one user, and the process itself.
func Impersonated() func(*http.Request) (approval.Identity, error) {
	otherwise := approval.Identity{Name: LocalUser()}
	return func(r *http.Request) (approval.Identity, error) {
		if name := r.Header.Get(userHeader); name != "" {
			return approval.Identity{Name: name, Groups: r.Header[groupHeader]}, nil
		}
		return otherwise, nil
	}
}

// announced is what stands beside the file of a store. Nothing of it is secret.
type announced struct {
	Address string `json:"address"`
	PID     int    `json:"pid"`
}

// announce writes where the holder of a store answers, and returns what removes that. The caller holds the store, so
// what is there is of a process that has ended.
func announce(store, address string) (withdraw func(), err error) {
	text, err := json.Marshal(announced{address, os.Getpid()})
	if err != nil {
		return nil, err
	}
	if old, err := Find(store); err != nil && old != "" {
		if socket, is := strings.CutPrefix(old, unixScheme); is { // of a process that was killed
			_ = os.Remove(socket)
			_ = os.Remove(filepath.Dir(socket))
		}
	}
	path := store + announcement
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+"-*") // of permissions 0600
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
		return nil, fmt.Errorf("httpapi: announcing where the store is served: %w", err)
	}
	return func() {
		if now, err := os.ReadFile(path); err == nil && bytes.Equal(now, text) {
			_ = os.Remove(path)
		}
	}, nil
}

// ErrStale is matched by the error of [Find] where what is announced beside the file is of a process that has ended.
var ErrStale = errors.New("the process that announced it has ended")

// Find returns the address, for [NewClient], at which the program that holds the file of a store answers. It trusts
// what another user of the machine cannot have written: else what is meant for the program could be given to another
// one. The error matches fs.ErrNotExist where nothing is announced, and [ErrStale], beside the address, where no
// process answers there any more.
func Find(store string) (address string, err error) {
	path := store + announcement
	text, err := readOwned(path)
	if err != nil {
		return "", err
	}
	var a announced
	if err := json.Unmarshal(text, &a); err != nil || a.Address == "" {
		return "", fmt.Errorf("%s does not say where the store is served: remove it", path)
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

// private checks that a directory is of the process's user alone.
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
