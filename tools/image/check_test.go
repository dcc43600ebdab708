package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// attestedIndex is an image for one platform, as BuildKit pushes it with --sbom and --provenance, of one kind of statement each.
func attestedIndex(t *testing.T, predicates ...string) v1.ImageIndex {
	t.Helper()
	image, err := random.Image(10, 1)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	statements := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	for _, p := range predicates {
		statements, err = mutate.Append(statements, mutate.Addendum{
			Layer:       static.NewLayer([]byte(`{"predicateType":"`+p+`"}`), "application/vnd.in-toto+json"),
			Annotations: map[string]string{"in-toto.io/predicate-type": p},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex),
		mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}}},
		mutate.IndexAddendum{Add: statements, Descriptor: v1.Descriptor{
			Platform:    &v1.Platform{OS: "unknown", Architecture: "unknown"},
			Annotations: map[string]string{"vnd.docker.reference.type": "attestation-manifest", "vnd.docker.reference.digest": digest.String()},
		}})
}

func TestAttestedSBOM(t *testing.T) {
	server := httptest.NewServer(registry.New())
	defer server.Close()
	const spdx, provenance = "https://spdx.dev/Document", "https://slsa.dev/provenance/v1"
	whole := attestedIndex(t, provenance, spdx)
	manifest, err := whole.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		index  v1.ImageIndex
		remove string // what is then removed from the registry
		want   string
	}{
		{"whole", whole, "", ""},
		{"unsaid", attestedIndex(t, provenance), "", "its SBOM is missing"},
		{"of-another", mutate.RemoveManifests(whole, func(d v1.Descriptor) bool { return d.Platform.OS == "unknown" }), "", "its SBOM is missing"},
		{"gone", whole, manifest.Manifests[1].Digest.String(), "they are missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			repository := strings.TrimPrefix(server.URL, "http://") + "/" + c.name
			ref, err := name.ParseReference(repository + ":v1")
			if err != nil {
				t.Fatal(err)
			}
			if err := remote.WriteIndex(ref, c.index); err != nil {
				t.Fatal(err)
			}
			if c.remove != "" {
				if err := remote.Delete(ref.Context().Digest(c.remove)); err != nil {
					t.Fatal(err)
				}
			}
			wantError(t, run([]string{"check", "--sbom", "--platform", "linux/amd64", ref.String()}, io.Discard), c.want)
		})
	}
}

// TestSBOMThatIsGone: a registry without the API of referrers lists them under a tag, whatever has become of them.
func TestSBOMThatIsGone(t *testing.T) {
	store := registry.New()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/referrers/") {
			http.NotFound(w, r)
			return
		}
		store.ServeHTTP(w, r)
	}))
	defer server.Close()
	ref, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://") + "/me/shell-operator:v1")
	if err != nil {
		t.Fatal(err)
	}
	dir, _ := built(t, example(t))
	check := []string{"check", "--sbom", "--platform", "linux/amd64", "--platform", "linux/arm64", ref.String()}
	if err := run([]string{"push", dir, ref.String()}, io.Discard); err != nil {
		t.Fatal(err)
	}
	wantError(t, run(check, io.Discard), "")
	index, err := remote.Index(ref)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	referrers, err := remote.Referrers(ref.Context().Digest(manifest.Manifests[1].Digest.String()))
	if err != nil {
		t.Fatal(err)
	}
	sboms, err := referrers.IndexManifest()
	if err != nil || len(sboms.Manifests) != 1 {
		t.Fatalf("%+v, %v", sboms, err)
	}
	if err := remote.Delete(ref.Context().Digest(sboms.Manifests[0].Digest.String())); err != nil {
		t.Fatal(err)
	}
	wantError(t, run(check, io.Discard), "for linux/arm64: its SBOM is named, but missing")
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("error %v, want %q", err, want)
	}
}
