//go:build !unix

package kubeenv

import (
	"errors"
	"fmt"
	"os"
)

// There is no asking here, only ending.
func terminate(p *os.Process) { _ = p.Kill() }

func (p *process) pause() error {
	return fmt.Errorf("kubeenv: pause %s: %w", p.name, errors.ErrUnsupported)
}

func (*process) resume() {}
