package pgenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	// variable names the directory of the programs, before any other.
	variable = "SLIPWAY_POSTGRES"
	// oldest is the oldest major version that tests run against.
	oldest = 15
)

// errMissing names the package to install.
var errMissing = errors.New("pgenv: no PostgreSQL 15 or newer was found: install it (apt-get install postgresql), or set " +
	variable + " to the directory of initdb and postgres")

// Programs returns the directory of the newest PostgreSQL that is installed.
func Programs() (string, error) {
	if dir := os.Getenv(variable); dir != "" {
		if major(dir) < oldest {
			return "", fmt.Errorf("pgenv: %s is %s, where there is no initdb and postgres of version %d or newer", variable, dir, oldest)
		}
		return dir, nil
	}
	best, newest := "", oldest-1
	for _, dir := range candidates() {
		if m := major(dir); m > newest {
			best, newest = dir, m
		}
	}
	if best == "" {
		return "", errMissing
	}
	return best, nil
}

// candidates are the directories where programs may be.
func candidates() []string {
	var dirs []string
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin"} {
		found, _ := filepath.Glob(pattern) // the patterns are well formed
		dirs = append(dirs, found...)
	}
	if program, err := exec.LookPath("postgres"); err == nil {
		dirs = append(dirs, filepath.Dir(program))
	}
	return slices.Compact(dirs)
}

// major returns the major version of the server in a directory, 0 if there is none.
func major(dir string) int {
	for _, name := range []string{"initdb", "pg_ctl", "pg_basebackup"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return 0
		}
	}
	out, err := exec.Command(filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return 0
	}
	number := regexp.MustCompile(`\) (\d+)`).FindSubmatch(out)
	if number == nil {
		return 0
	}
	n, _ := strconv.Atoi(string(number[1])) // it has only digits
	return n
}
