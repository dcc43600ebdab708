package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

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
			err = checkSBOM(index, manifest, ref.Context().Digest(digest.String()))
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

// checkSBOM wants an SBOM of one of the two kinds that our images have, and all of it.
func checkSBOM(index v1.ImageIndex, manifest *v1.IndexManifest, image name.Digest) error {
	found, err := attested(index, manifest, image.DigestStr())
	if err != nil || found {
		return err
	}
	return checkReferrer(image)
}

// attested tells whether BuildKit has put an SBOM into the index: a manifest that is for no platform, with a statement in SPDX.
func attested(index v1.ImageIndex, manifest *v1.IndexManifest, digest string) (bool, error) {
	for _, d := range manifest.Manifests {
		if d.Annotations["vnd.docker.reference.type"] != "attestation-manifest" || d.Annotations["vnd.docker.reference.digest"] != digest {
			continue
		}
		statements, err := index.Image(d.Digest)
		if err != nil {
			return false, fmt.Errorf("the index names its attestations, but they are missing: %w", err)
		}
		m, err := statements.Manifest()
		if err != nil {
			return false, fmt.Errorf("cannot read its attestations: %w", err)
		}
		for _, l := range m.Layers {
			if l.Annotations["in-toto.io/predicate-type"] == "https://spdx.dev/Document" {
				return true, checkLayers(statements)
			}
		}
	}
	return false, nil
}

// checkReferrer looks for the artifact that image build has made.
func checkReferrer(image name.Digest) error {
	referrers, err := remote.Referrers(image, login)
	if err != nil {
		return fmt.Errorf("cannot look for its SBOM: %w", err)
	}
	manifest, err := referrers.IndexManifest()
	if err != nil {
		return fmt.Errorf("cannot look for its SBOM: %w", err)
	}
	for _, d := range manifest.Manifests {
		if d.ArtifactType != string(sbomType) {
			continue
		}
		// Where a registry does not know referrers, they are listed under a tag, which stays when an artifact is removed.
		sbom, err := remote.Image(image.Context().Digest(d.Digest.String()), login)
		if err != nil {
			return fmt.Errorf("its SBOM is named, but missing: %w", err)
		}
		return checkLayers(sbom)
	}
	return errors.New("its SBOM is missing")
}

// checkLayers asks whether the layers of an SBOM are there, and does not fetch them.
func checkLayers(sbom v1.Image) error {
	layers, err := sbom.Layers()
	if err != nil {
		return fmt.Errorf("cannot read its SBOM: %w", err)
	}
	for _, l := range layers {
		if there, err := partial.Exists(l); err != nil || !there {
			return errors.Join(errors.New("the text of its SBOM is missing"), err)
		}
	}
	return nil
}
