package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const root = "../.."

var platforms = []string{"linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64", "windows_amd64", "windows_arm64"}

// The manifest of the repository names the plugin, the program and the platforms as krew's schema
// demands, and claims no release.
func TestTheManifestNamesTheProgramAndThePlatforms(t *testing.T) {
	p, err := readManifest(root)
	if err != nil {
		t.Fatal(err)
	}
	if p.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || p.Kind != "Plugin" || p.Metadata.Name != "slipway" || p.Spec.Version != "v0.0.0" {
		t.Errorf("%s %s %s %s", p.APIVersion, p.Kind, p.Metadata.Name, p.Spec.Version)
	}
	if n := len(p.Spec.ShortDescription); n == 0 || n > 50 || p.Spec.Homepage == "" || p.Spec.Description == "" {
		t.Errorf("a short description of %d characters, the homepage %q", n, p.Spec.Homepage)
	}
	var got []string
	for i := range p.Spec.Platforms {
		one := &p.Spec.Platforms[i]
		got = append(got, one.name())
		if want := map[bool]string{true: "kubectl-slipway.exe", false: "kubectl-slipway"}[strings.HasPrefix(one.name(), "windows")]; one.Bin != want {
			t.Errorf("%s: the program is %s, want %s", one.name(), one.Bin, want)
		}
		if one.URI != "" || one.SHA256 != "" {
			t.Errorf("%s names an archive, and there is no release", one.name())
		}
	}
	if !slices.Equal(got, platforms) {
		t.Errorf("platforms %v", got)
	}
}

// programs writes a program for each platform; the content is the name of the platform.
func programs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, p := range platforms {
		name := "kubectl-slipway"
		if strings.HasPrefix(p, "windows") {
			name += ".exe"
		}
		if err := os.MkdirAll(filepath.Join(dir, p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, p, name), []byte(p), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A release has an archive with the program and the license for each platform, which the manifest
// names with its checksum; made again it has the same bytes.
func TestAReleaseIsPackedWithItsManifest(t *testing.T) {
	r := release{root: root, version: "v1.2.3-rc.1", binaries: programs(t), out: filepath.Join(t.TempDir(), "dist")}
	if err := r.write(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(r.out, "slipway.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var p plugin
	if err := yaml.UnmarshalStrict(text, &p); err != nil {
		t.Fatal(err)
	}
	if p.Spec.Version != "v1.2.3-rc.1" || len(p.Spec.Platforms) != len(platforms) {
		t.Errorf("version %s, %d platforms", p.Spec.Version, len(p.Spec.Platforms))
	}
	license, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.Spec.Platforms {
		one := &p.Spec.Platforms[i]
		archive, err := os.ReadFile(filepath.Join(r.out, path.Base(one.URI)))
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(archive); hex.EncodeToString(sum[:]) != one.SHA256 || !strings.Contains(one.URI, "/v1.2.3-rc.1/") {
			t.Errorf("%s: %s has another checksum, %x", one.name(), one.URI, sum)
		}
		want := map[string]string{"LICENSE -rw-r--r--": string(license), one.Bin + " -rwxr-xr-x": one.name()}
		if diff := cmp.Diff(want, unpacked(t, one.URI, archive)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", one.URI, diff)
		}
	}
	again := r
	again.out = t.TempDir()
	if err := again.write(); err != nil {
		t.Fatal(err)
	}
	if same, _ := os.ReadFile(filepath.Join(again.out, "slipway.yaml")); !bytes.Equal(text, same) {
		t.Error("the archives of the same programs have other checksums")
	}
}

// unpacked returns the files of an archive, by name and mode.
func unpacked(t *testing.T, name string, archive []byte) map[string]string {
	t.Helper()
	out := map[string]string{}
	add := func(info os.FileInfo, r io.Reader, err error) {
		t.Helper()
		var text []byte
		if err == nil {
			text, err = io.ReadAll(r)
		}
		if err != nil {
			t.Fatal(err)
		}
		out[info.Name()+" "+info.Mode().String()] = string(text)
	}
	if strings.HasSuffix(name, ".zip") {
		files, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files.File {
			r, err := f.Open()
			add(f.FileInfo(), r, err)
		}
		return out
	}
	compressed, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	files := tar.NewReader(compressed)
	for {
		header, err := files.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		add(header.FileInfo(), files, nil)
	}
}

func TestIncompleteReleaseIsAnError(t *testing.T) {
	for want, r := range map[string]release{
		`-version "1.2": want one as v1.2.3`: {root: root, version: "1.2", binaries: t.TempDir(), out: t.TempDir()},
		"-binaries and -out":                 {root: root, version: "v1.2.3"},
		"linux_amd64":                        {root: root, version: "v1.2.3", binaries: t.TempDir(), out: t.TempDir()},
	} {
		if err := r.write(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
