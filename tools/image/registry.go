package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// login uses what docker login, or another program that writes the same file, has left.
var login = remote.WithAuthFromKeychain(authn.DefaultKeychain)

// push pushes the index of a layout under the reference, and then the SBOMs by their digests.
func push(dir, reference string, stdout io.Writer) error {
	ref, err := name.ParseReference(reference)
	if err != nil {
		return err
	}
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return fmt.Errorf("cannot read the OCI layout in %s: %w: make it with image build", dir, err)
	}
	manifest, err := top.IndexManifest()
	if err != nil {
		return err
	}
	for _, d := range manifest.Manifests {
		if !d.MediaType.IsIndex() {
			continue
		}
		index, err := top.ImageIndex(d.Digest)
		if err != nil {
			return err
		}
		if err := remote.WriteIndex(ref, index, login); err != nil {
			return fmt.Errorf("cannot push %s: %w", ref, err)
		}
		fmt.Fprintf(stdout, "%s@%s\n", ref, d.Digest)
	}
	for _, d := range manifest.Manifests {
		if !d.MediaType.IsImage() {
			continue
		}
		sbom, err := top.Image(d.Digest)
		if err != nil {
			return err
		}
		if err := remote.Write(ref.Context().Digest(d.Digest.String()), sbom, login); err != nil {
			return fmt.Errorf("cannot push the SBOM %s: %w", d.Digest, err)
		}
	}
	return nil
}

// check tells everything that is missing of one reference.
func check(reference string, platforms []string, sbom bool, stdout io.Writer) error {
	ref, err := name.ParseReference(reference)
	if err != nil {
		return err
	}
	index, err := remote.Index(ref, login)
	if err != nil {
		return fmt.Errorf("%s is missing, or is not an image for several platforms: %w", ref, err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", ref, err)
	}
	var missing []error
	for _, platform := range platforms {
		digest, err := checkPlatform(index, manifest, platform)
		if err == nil && sbom {
			err = checkSBOM(ref.Context().Digest(digest.String()))
		}
		if err != nil {
			missing = append(missing, fmt.Errorf("%s for %s: %w", ref, platform, err))
			continue
		}
		fmt.Fprintf(stdout, "%s for %s: %s\n", ref, platform, digest)
	}
	return errors.Join(missing...)
}

func checkPlatform(index v1.ImageIndex, manifest *v1.IndexManifest, platform string) (v1.Hash, error) {
	want, err := v1.ParsePlatform(platform)
	if err != nil {
		return v1.Hash{}, err
	}
	for _, d := range manifest.Manifests {
		if d.Platform == nil || !d.Platform.Satisfies(*want) {
			continue
		}
		image, err := index.Image(d.Digest)
		if err != nil {
			return d.Digest, fmt.Errorf("the index names it, but it is missing: %w", err)
		}
		// Fast asks whether the layers are there, and does not fetch them.
		return d.Digest, validate.Image(image, validate.Fast)
	}
	return v1.Hash{}, errors.New("missing")
}

func checkSBOM(image name.Digest) error {
	referrers, err := remote.Referrers(image, login)
	if err != nil {
		return fmt.Errorf("cannot look for its SBOM: %w", err)
	}
	manifest, err := referrers.IndexManifest()
	if err != nil {
		return fmt.Errorf("cannot look for its SBOM: %w", err)
	}
	for _, d := range manifest.Manifests {
		if d.ArtifactType == string(sbomType) {
			return nil
		}
	}
	return errors.New("its SBOM is missing")
}
