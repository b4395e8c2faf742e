package access_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/fleet/httpapi/access"
)

// A changed file is taken after two equal readings. If the content is invalid or the file is
// missing, the policy stays as it was, and the log has one error.
func TestAFileIsFollowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const first, second = "rules: [{role: viewer, users: [ann], placements: [shop]}]", "rules: [{role: viewer, users: [bob], placements: [shop]}]"
	write(first)
	synctest.Test(t, func(t *testing.T) {
		f, err := access.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var log bytes.Buffer
		go f.Follow(ctx, slog.New(slog.NewTextHandler(&log, nil)))
		permitted := func(name string, want bool) {
			t.Helper()
			synctest.Wait()
			if err := f.Authorize(t.Context(), approval.Identity{Name: name}, httpapi.Get, "shop"); (err == nil) != want {
				t.Errorf("%s is permitted: %v, want %t", name, err, want)
			}
		}
		permitted("ann", true)
		for _, wrong := range []string{"rules: []", "rules: [{role: owner, users: [bob], placements: [shop]}, {role: viewer, users: [bob], placements: [shop]}]", ""} {
			write(wrong)
			time.Sleep(5 * access.Interval)
			permitted("ann", true)
			permitted("bob", false)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * access.Interval)
		permitted("ann", true)
		write(second)
		time.Sleep(access.Interval)
		permitted("ann", true) // it may still be written
		time.Sleep(access.Interval)
		permitted("ann", false)
		permitted("bob", true)
		stop()
		synctest.Wait()
		if n := strings.Count(log.String(), "level=ERROR"); n != 4 || strings.Count(log.String(), "level=INFO") != 1 || !strings.Contains(log.String(), path+": ") {
			t.Errorf("%d errors, want 4:\n%s", n, log.String())
		}
	})
}

// Open reports a missing file, a wrong policy and a file that others can change, with the path.
func TestOpenNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	for i := range 3 {
		if _, err := access.Open(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%v", err)
		}
		if err := os.WriteFile(path, []byte([]string{"rules: 5", "rules: [{role: viewer, users: [ann], placements: [shop]}]"}[i%2]), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, []os.FileMode{0o600, 0o620, 0o600}[i]); err != nil {
			t.Fatal(err)
		}
	}
}
