// Command krew packs the plugin kubectl-slipway for each platform of its manifest, and writes the
// manifest with the version and the checksums of the archives:
//
//	krew -version v1.2.3 -binaries DIR -out DIR
//
// The program of a platform is DIR/OS_ARCH/kubectl-slipway, on Windows with .exe. An archive
// contains the program and the LICENSE. The same input always produces the same bytes.
package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"

	"sigs.k8s.io/yaml"
)

// releases is the download location of a version's archives.
const releases = "https://github.com/slipway-dev/slipway/releases/download/"

func main() {
	var r release
	flag.StringVar(&r.root, "root", ".", "directory of the module, which has LICENSE and deploy/krew/slipway.yaml")
	flag.StringVar(&r.version, "version", "", "version of the release, as v1.2.3")
	flag.StringVar(&r.binaries, "binaries", "", "directory with OS_ARCH/kubectl-slipway for each platform")
	flag.StringVar(&r.out, "out", "", "directory of the archives and the manifest")
	flag.Parse()
	if err := r.write(); err != nil {
		fmt.Fprintln(os.Stderr, "krew:", err)
		os.Exit(1)
	}
}

// release is a version with the directories of its input and output.
type release struct{ root, version, binaries, out string }

// plugin is a manifest of krew.
type plugin struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version          string     `json:"version"`
		Homepage         string     `json:"homepage"`
		ShortDescription string     `json:"shortDescription"`
		Description      string     `json:"description"`
		Platforms        []platform `json:"platforms"`
	} `json:"spec"`
}

type platform struct {
	Selector struct {
		MatchLabels struct {
			OS   string `json:"os"`
			Arch string `json:"arch"`
		} `json:"matchLabels"`
	} `json:"selector"`
	URI    string `json:"uri,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	Bin    string `json:"bin"`
}

func (p *platform) name() string {
	return p.Selector.MatchLabels.OS + "_" + p.Selector.MatchLabels.Arch
}

// readManifest reads the manifest in the repository.
func readManifest(root string) (*plugin, error) {
	path := filepath.Join(root, "deploy", "krew", "slipway.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p := &plugin{}
	if err := yaml.UnmarshalStrict(text, p); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

var versions = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

// write packs every platform, and writes the manifest.
func (r *release) write() error {
	if !versions.MatchString(r.version) {
		return fmt.Errorf("-version %q: want one as v1.2.3", r.version)
	}
	if r.binaries == "" || r.out == "" {
		return errors.New("-binaries and -out are needed")
	}
	p, err := readManifest(r.root)
	if err != nil {
		return err
	}
	license, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	p.Spec.Version = r.version
	for i := range p.Spec.Platforms {
		if err := r.pack(&p.Spec.Platforms[i], license); err != nil {
			return err
		}
	}
	text, err := yaml.Marshal(p)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "slipway.yaml"), text, 0o644)
}

// file is a file of an archive.
type file struct {
	name string
	mode os.FileMode
	text []byte
}

// pack writes the archive of a platform, and completes the platform's entry in the manifest.
func (r *release) pack(p *platform, license []byte) error {
	program, err := os.ReadFile(filepath.Join(r.binaries, p.name(), p.Bin))
	if err != nil {
		return err
	}
	name, write := "kubectl-slipway_"+p.name()+".tar.gz", writeTar
	if p.Selector.MatchLabels.OS == "windows" {
		name, write = "kubectl-slipway_"+p.name()+".zip", writeZip
	}
	var archive bytes.Buffer
	if err := write(&archive, []file{{"LICENSE", 0o644, license}, {p.Bin, 0o755, program}}); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	sum := sha256.Sum256(archive.Bytes())
	p.URI, p.SHA256 = releases+r.version+"/"+name, hex.EncodeToString(sum[:])
	return os.WriteFile(filepath.Join(r.out, name), archive.Bytes(), 0o644)
}

func writeTar(w io.Writer, files []file) error {
	compressed := gzip.NewWriter(w)
	archive := tar.NewWriter(compressed)
	for _, f := range files {
		err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: int64(f.mode), Size: int64(len(f.text))})
		if err != nil {
			return err
		}
		if _, err := archive.Write(f.text); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), compressed.Close())
}

func writeZip(w io.Writer, files []file) error {
	archive := zip.NewWriter(w)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate}
		header.SetMode(f.mode)
		entry, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := entry.Write(f.text); err != nil {
			return err
		}
	}
	return archive.Close()
}
