package main

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// options are everything that decides what is in the image.
type options struct {
	version, revision string
	time              time.Time
	// licenses is the file with the licenses of the libraries.
	licenses string
	binaries []binary
}

type binary struct{ platform, file string }

// sbomType is the type of the artifact that refers to an image.
const sbomType = types.MediaType("application/vnd.cyclonedx+json")

// build writes the layout and returns the digest of the index, which names the image of each platform.
func build(o options, to string) (string, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var sboms []v1.Image
	for _, b := range o.binaries {
		platform, err := v1.ParsePlatform(b.platform)
		if err != nil {
			return "", err
		}
		if err := checkProgram(b.file, platform); err != nil {
			return "", err
		}
		image, err := imageOf(o, b.file, platform)
		if err != nil {
			return "", fmt.Errorf("cannot make the image for %s: %w", b.platform, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
		sbom, err := sbomImage(o, b.file, image)
		if err != nil {
			return "", fmt.Errorf("cannot make the SBOM for %s: %w", b.platform, err)
		}
		sboms = append(sboms, sbom)
	}
	return write(index, sboms, o.version, to)
}

// machines are the ELF names of the supported architectures.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64, "arm": elf.EM_ARM}

// checkProgram refuses what cannot run in an image that has nothing else.
func checkProgram(file string, platform *v1.Platform) error {
	program, err := elf.Open(file)
	if err != nil {
		return fmt.Errorf("%s is no program for Linux: %w", file, err)
	}
	defer program.Close()
	if platform.OS != "linux" || program.Machine != machines[platform.Architecture] {
		return fmt.Errorf("%s is a program for %s, not for %s", file, program.Machine, platform)
	}
	if libraries, err := program.ImportedLibraries(); err == nil && len(libraries) > 0 {
		return fmt.Errorf("%s needs the libraries %q: build it with CGO_ENABLED=0", file, libraries)
	}
	return nil
}

func imageOf(o options, file string, platform *v1.Platform) (v1.Image, error) {
	layer, err := layerOf(file, o)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{
		Layer: layer, History: v1.History{Created: v1.Time{Time: o.time}, CreatedBy: "make image"},
	})
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(image, config(o, image, platform))
}

// config is what a container runtime starts. Paths and variables equal the paths and variables of the image with a shell.
func config(o options, image v1.Image, platform *v1.Platform) *v1.ConfigFile {
	c, _ := image.ConfigFile() // it is in memory
	c = c.DeepCopy()
	c.OS, c.Architecture, c.Variant = platform.OS, platform.Architecture, platform.Variant
	c.Created = v1.Time{Time: o.time}
	c.Config = v1.Config{
		Entrypoint: []string{"/shell-operator"}, Cmd: []string{"start"}, WorkingDir: "/", User: fmt.Sprintf("%d:%d", nonRoot, nonRoot),
		Env: []string{
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "SHELL_OPERATOR_HOOKS_DIR=/hooks", "LOG_TYPE=json", "HOME=/tmp",
		},
		Labels: map[string]string{
			"org.opencontainers.image.title":       "shell-operator",
			"org.opencontainers.image.description": "Runs hook scripts on Kubernetes events; static, without a shell",
			"org.opencontainers.image.source":      "https://github.com/shell-operator/shell-operator",
			"org.opencontainers.image.licenses":    "Apache-2.0",
			"org.opencontainers.image.version":     o.version,
			"org.opencontainers.image.revision":    o.revision,
		},
	}
	return c
}

// sbomImage is the artifact with the SBOM, which refers to the image.
func sbomImage(o options, file string, image v1.Image) (v1.Image, error) {
	text, err := sbomOf(file, o.version)
	if err != nil {
		return nil, err
	}
	subject, err := partial.Descriptor(image)
	if err != nil {
		return nil, err
	}
	artifact := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), sbomType)
	artifact, err = mutate.AppendLayers(artifact, static.NewLayer(text, sbomType))
	if err != nil {
		return nil, err
	}
	// A descriptor of the subject has no platform: that is the index's business.
	subject = &v1.Descriptor{MediaType: subject.MediaType, Size: subject.Size, Digest: subject.Digest}
	return mutate.Subject(artifact, *subject).(v1.Image), nil
}

// write replaces the layout at to. Whatever else is there stays, and is an error.
func write(index v1.ImageIndex, sboms []v1.Image, version, to string) (string, error) {
	if _, err := layout.FromPath(to); err == nil {
		if err := os.RemoveAll(to); err != nil {
			return "", err
		}
	}
	if found, err := filepath.Glob(filepath.Join(to, "*")); err != nil || len(found) > 0 {
		return "", errors.Join(fmt.Errorf("%s is not empty and no OCI layout: remove it, or choose another directory with --to", to), err)
	}
	path, err := layout.Write(to, empty.Index)
	if err != nil {
		return "", err
	}
	err = path.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": version}))
	if err != nil {
		return "", err
	}
	for _, sbom := range sboms {
		if err := path.AppendImage(sbom); err != nil {
			return "", err
		}
	}
	digest, err := index.Digest()
	return digest.String(), err
}
