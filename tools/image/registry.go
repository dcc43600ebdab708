package main

import (
	"fmt"
	"io"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
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
