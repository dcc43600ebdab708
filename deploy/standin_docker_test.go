package deploy

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
)

// docker is as much of Docker and BuildKit as a release calls. It builds nothing: what it pushes has the form of an image
// for several platforms with attestations.
func docker(args []string) error {
	switch line := strings.Join(args, " ") + " "; {
	case strings.HasPrefix(line, "version "):
		return nil
	case strings.HasPrefix(line, "build "):
		return buildx(args[1:])
	case strings.HasPrefix(line, "buildx build "):
		return buildx(args[2:])
	case strings.HasPrefix(line, "buildx imagetools create "):
		return retag(args[3:])
	}
	return errors.New("no such command is known")
}

func buildx(args []string) error {
	flags, rest, err := parsed(args, "push", "sbom=", "provenance=", "platform=", "build-arg=", "t=", "f=")
	if err != nil {
		return err
	}
	if len(rest) != 1 || flags["t"] == "" || !strings.HasPrefix(flags["build-arg"], "VERSION=v") {
		return fmt.Errorf("a context, a name and a version are needed: %q", args)
	}
	for _, path := range []string{rest[0], flags["f"]} {
		if _, err := os.Stat(path); err != nil {
			return err
		}
	}
	if flags["push"] == "" {
		return nil
	}
	s, err := remote()
	if err != nil {
		return err
	}
	repository, tag, err := split(flags["t"])
	if err != nil {
		return err
	}
	var images, attestations []descriptor
	for _, platform := range strings.Split(flags["platform"], ",") {
		image, err := pushPlatform(s, repository, platform)
		if err != nil {
			return err
		}
		images = append(images, image)
		attestation, err := pushStatements(s, repository, image.Digest, flags)
		if err != nil {
			return err
		}
		attestations = append(attestations, attestation)
	}
	const indexType = "application/vnd.oci.image.index.v1+json"
	text, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": indexType, "manifests": append(images, attestations...)})
	if err != nil {
		return err
	}
	_, _, err = s.ask(http.MethodPut, repository+"/manifests/"+tag, indexType, text)
	return err
}

func pushPlatform(s store, repository, platform string) (descriptor, error) {
	parts := append(strings.Split(platform, "/"), "")
	layer, err := s.blob(repository, "application/vnd.oci.image.layer.v1.tar+gzip", []byte("programs for "+platform))
	if err != nil {
		return layer, err
	}
	config, err := s.blob(repository, "application/vnd.oci.image.config.v1+json", fmt.Appendf(nil,
		`{"os":%q,"architecture":%q,"variant":%q,"rootfs":{"type":"layers","diff_ids":[%q]}}`, parts[0], parts[1], parts[2], layer.Digest))
	if err != nil {
		return config, err
	}
	image, err := s.manifest(repository, "", config, layer)
	image.Platform = map[string]string{"os": parts[0], "architecture": parts[1]}
	if parts[2] != "" {
		image.Platform["variant"] = parts[2]
	}
	return image, err
}

// pushStatements pushes what BuildKit attests of the image of one platform.
func pushStatements(s store, repository, image string, flags map[string]string) (descriptor, error) {
	config, err := s.blob(repository, "application/vnd.oci.image.config.v1+json", []byte(`{"os":"unknown","architecture":"unknown"}`))
	if err != nil {
		return config, err
	}
	var layers []descriptor
	for flag, predicate := range map[string]string{"sbom": "https://spdx.dev/Document", "provenance": "https://slsa.dev/provenance/v1"} {
		if flags[flag] != "true" {
			continue
		}
		layer, err := s.blob(repository, "application/vnd.in-toto+json", fmt.Appendf(nil, `{"predicateType":%q,"subject":%q}`, predicate, image))
		if err != nil {
			return layer, err
		}
		layer.Annotations = map[string]string{"in-toto.io/predicate-type": predicate}
		layers = append(layers, layer)
	}
	d, err := s.manifest(repository, "", config, layers...)
	d.Platform = map[string]string{"os": "unknown", "architecture": "unknown"}
	d.Annotations = map[string]string{"vnd.docker.reference.type": "attestation-manifest", "vnd.docker.reference.digest": image}
	return d, err
}

// retag gives what is under one name another one too.
func retag(args []string) error {
	flags, rest, err := parsed(args, "t=")
	if err != nil {
		return err
	}
	s, err := remote()
	if err != nil {
		return err
	}
	repository, tag, err := split(strings.Join(rest, " "))
	if err != nil {
		return err
	}
	text, header, err := s.ask(http.MethodGet, repository+"/manifests/"+tag, "", nil)
	if err != nil {
		return err
	}
	repository, tag, err = split(flags["t"])
	if err != nil {
		return err
	}
	_, _, err = s.ask(http.MethodPut, repository+"/manifests/"+tag, header.Get("Content-Type"), text)
	return err
}
