package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// programs are static programs for two platforms, as the operator's are.
var programs = sync.OnceValues(func() (map[string][]byte, error) {
	dir, err := os.MkdirTemp("", "image-test-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	files := map[string]string{"go.mod": "module example.com/program\n\ngo 1.26.0\n",
		"main.go": "package main\n\nfunc main() { println(1) }\n"}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	found := map[string][]byte{}
	for _, arch := range []string{"amd64", "arm64"} {
		cmd := exec.Command("go", "build", "-trimpath", "-o", "program", ".")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOFLAGS=", "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, errors.New(string(out))
		}
		if found["linux/"+arch], err = os.ReadFile(filepath.Join(dir, "program")); err != nil {
			return nil, err
		}
	}
	return found, nil
})

// example returns options with programs that were written just now.
func example(t *testing.T) options {
	t.Helper()
	all, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	o := options{version: "v1.2.3", revision: "abc", time: time.Unix(1_700_000_000, 0).UTC(), licenses: filepath.Join(t.TempDir(), "licenses")}
	if err := os.WriteFile(o.licenses, []byte("MIT"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, platform := range []string{"linux/amd64", "linux/arm64"} {
		file := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(file, all[platform], 0o755); err != nil {
			t.Fatal(err)
		}
		o.binaries = append(o.binaries, binary{platform, file})
	}
	return o
}

func built(t *testing.T, o options) (dir, digest string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "layout")
	digest, err := build(o, dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir, digest
}

func TestReproducible(t *testing.T) {
	first, firstDigest := built(t, example(t))
	second, secondDigest := built(t, example(t))
	if firstDigest != secondDigest {
		t.Errorf("two builds have the digests %s and %s", firstDigest, secondDigest)
	}
	// The SBOMs are named in the top index only.
	for _, file := range []string{"index.json", "oci-layout"} {
		a, errA := os.ReadFile(filepath.Join(first, file))
		b, errB := os.ReadFile(filepath.Join(second, file))
		if err := errors.Join(errA, errB); err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s of two builds differs: %v", file, err)
		}
	}
	other := example(t)
	other.version = "v1.2.4"
	if _, digest := built(t, other); digest == firstDigest {
		t.Error("another version has the same digest")
	}
}

// images returns the index of the layout and its image for a platform.
func image(t *testing.T, dir, platform string) v1.Image {
	t.Helper()
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := top.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	index, err := top.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Fatal(err)
	}
	inner, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range inner.Manifests {
		if d.Platform.String() == platform {
			found, err := index.Image(d.Digest)
			if err != nil {
				t.Fatal(err)
			}
			return found
		}
	}
	t.Fatalf("no image for %s", platform)
	return nil
}

func TestContent(t *testing.T) {
	o := example(t)
	dir, _ := built(t, o)
	for _, b := range o.binaries {
		img := image(t, dir, b.platform)
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if got := config.OS + "/" + config.Architecture; got != b.platform || !config.Created.Equal(o.time) {
			t.Errorf("the image for %s is for %s, of %s", b.platform, got, config.Created)
		}
		if c := config.Config; strings.Join(append(c.Entrypoint, c.Cmd...), " ") != "/shell-operator start" || c.User != "65532:65532" {
			t.Errorf("it starts %q %q as %q", c.Entrypoint, c.Cmd, c.User)
		}
		content := map[string][]byte{}
		headers := map[string]*tar.Header{}
		layers, err := img.Layers()
		if err != nil || len(layers) != 1 {
			t.Fatalf("%d layers, %v", len(layers), err)
		}
		read, err := layers[0].Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		defer read.Close()
		for r := tar.NewReader(read); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			headers[h.Name] = h
			if content[h.Name], err = io.ReadAll(r); err != nil {
				t.Fatal(err)
			}
			if !h.ModTime.Equal(o.time) {
				t.Errorf("%s is of %s", h.Name, h.ModTime)
			}
		}
		for name, mode := range map[string]int64{"shell-operator": 0o755, "hooks/": 0o755, "tmp/": 0o1777, "var/run/shell-operator/": 0o770} {
			if h := headers[name]; h == nil || h.Mode != mode {
				t.Errorf("%s is %+v", name, h)
			}
		}
		if h := headers["usr/local/bin/shell-operator"]; h == nil || h.Linkname != "/shell-operator" {
			t.Errorf("the link in the PATH is %+v", h)
		}
		program, err := os.ReadFile(b.file)
		if err != nil || !bytes.Equal(content["shell-operator"], program) {
			t.Errorf("%s: the program is another one: %v", b.platform, err)
		}
		if got := string(content["usr/share/licenses/shell-operator.txt"]); got != "MIT" {
			t.Errorf("the licences are %q", got)
		}
		if pool := x509.NewCertPool(); !pool.AppendCertsFromPEM(content["etc/ssl/certs/ca-certificates.crt"]) {
			t.Error("there are no CA certificates")
		}
	}
}

func TestSBOM(t *testing.T) {
	file := example(t).binaries[0].file
	text, err := sbomOf(file, "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(text), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	main := bom.Metadata.Component
	if main.PackageURL != "pkg:golang/example.com/program@v1.2.3" || len((*main.Hashes)[0].Value) != 64 {
		t.Errorf("the program is %+v", main)
	}
	if std := (*bom.Components)[0]; !strings.HasPrefix(std.PackageURL, "pkg:golang/std@1.") {
		t.Errorf("the first component is %+v", std)
	}

	// This very test has dependencies.
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if text, err = sbomOf(self, "v1"); err != nil || !strings.Contains(string(text), `"pkg:golang/github.com/google/go-containerregistry@v`) {
		t.Errorf("the SBOM of the test names no library: %v\n%s", err, text)
	}
}

// TestPush reads the image and its SBOMs back from a registry.
func TestPush(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true)))
	defer server.Close()
	ref, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://") + "/me/shell-operator:v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	dir, digest := built(t, example(t))
	if err := run([]string{"push", dir, ref.String()}, io.Discard); err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(ref)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := index.Digest(); err != nil || got.String() != digest {
		t.Errorf("digest %s, %v, want %s", got, err, digest)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	for _, image := range []string{dir, ref.String()} {
		var printed bytes.Buffer
		if err := run([]string{"digest", image}, &printed); err != nil || printed.String() != digest+"\n" {
			t.Errorf("image digest %s prints %q, %v, want %s", image, printed.String(), err, digest)
		}
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 2 {
		t.Fatalf("%+v, %v", manifest, err)
	}
	for _, d := range manifest.Manifests {
		referrers, err := remote.Referrers(ref.Context().Digest(d.Digest.String()))
		if err != nil {
			t.Fatal(err)
		}
		if sboms, err := referrers.IndexManifest(); err != nil || len(sboms.Manifests) != 1 ||
			sboms.Manifests[0].ArtifactType != string(sbomType) {
			t.Errorf("%s has the SBOMs %+v, %v", d.Platform, sboms, err)
		}
	}
}

func TestRefusals(t *testing.T) {
	o := example(t)
	crossed := o
	crossed.binaries = []binary{{"linux/amd64", o.binaries[1].file}}
	text := o
	text.binaries = []binary{{"linux/amd64", filepath.Join(t.TempDir(), "text")}}
	if err := os.WriteFile(text.binaries[0].file, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]options{"is a program for EM_AARCH64, not for linux/amd64": crossed, "is no program for Linux": text} {
		if _, err := build(o, filepath.Join(t.TempDir(), "layout")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	precious := t.TempDir()
	if err := os.WriteFile(filepath.Join(precious, "thesis"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := build(o, precious); err == nil || !strings.Contains(err.Error(), "no OCI layout") {
		t.Errorf("a directory with other things in it: %v", err)
	}
	if _, err := os.Stat(filepath.Join(precious, "thesis")); err != nil {
		t.Error(err)
	}
}
