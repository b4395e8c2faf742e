package kubeenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// rootModule is the module whose directory has the bin that make kube fills.
const rootModule = "github.com/slipway-dev/slipway"

// assets is the environment variable that names a directory with the programs, as envtest knows it.
const assets = "KUBEBUILDER_ASSETS"

// Binary returns the path of a program: etcd, kube-apiserver, kube-controller-manager, kubectl or
// prometheus. It is searched in the directory that KUBEBUILDER_ASSETS names, then in bin of this
// module, which is found from the working directory upwards. An error says how to get it.
func Binary(name string) (string, error) {
	dirs, err := binaryDirs()
	if err != nil {
		return "", err
	}
	file := name
	if runtime.GOOS == "windows" {
		file += ".exe"
	}
	for _, dir := range dirs {
		if path := filepath.Join(dir, file); isProgram(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("kubeenv: no program %s in %s: run make kube, which builds it", name, strings.Join(dirs, " or in "))
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// binaryDirs returns the directories to search, in that order.
func binaryDirs() ([]string, error) {
	var dirs []string
	if dir := os.Getenv(assets); dir != "" {
		dirs = append(dirs, dir)
	}
	root, err := moduleRoot()
	switch {
	case err == nil:
		dirs = append(dirs, filepath.Join(root, "bin"))
	case len(dirs) == 0:
		return nil, fmt.Errorf("kubeenv: %w; set %s to the directory of the programs, or run make kube and start inside the module", err, assets)
	}
	return dirs, nil
}

// moduleRoot walks from the working directory up to the root module: past modules inside it, which
// have names of their own.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		if is, err := hasModule(at); err != nil || is {
			return at, err
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("no directory from %s upwards is the module %s", dir, rootModule)
		}
	}
}

func hasModule(dir string) (bool, error) {
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return slices.Contains(strings.Fields(firstLine(mod)), rootModule), err
}

func firstLine(b []byte) string {
	line, _, _ := strings.Cut(string(b), "\n")
	return line
}
