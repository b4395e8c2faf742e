package kubeenv

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// loopback is where everything listens.
const loopback = "127.0.0.1"

// Ports are below the range that operating systems use for outgoing connections. Therefore no
// other connection takes the port of a stopped server, and no client that dials the port connects
// to itself.
const (
	lowestPort = 20000
	portCount  = 12000
)

// portTries is the maximum number of ports that are tried until one is free, and the maximum
// number of ports that a program gets in turn.
const portTries = 20

// freePort returns a port that is not in use at this moment.
func freePort() (int, error) {
	var problem error
	for range portTries {
		port := lowestPort + rand.IntN(portCount)
		l, err := net.Listen("tcp", address(port))
		if err == nil {
			return port, l.Close()
		}
		problem = errors.Join(problem, err)
	}
	return 0, problem
}

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
