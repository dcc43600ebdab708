package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"os"
	"runtime/debug"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// sbomOf says what a program is made of: the modules that its linker has noted, and Go itself. It has neither time nor
// serial number, so that the same program has the same SBOM.
func sbomOf(file, version string) ([]byte, error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read what %s is made of: %w", file, err)
	}
	program, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(program)
	main := component(cdx.ComponentTypeApplication, info.Main.Path, version)
	main.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}}
	main.Properties = settings(info)
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &main}
	components := []cdx.Component{component(cdx.ComponentTypeLibrary, "std", info.GoVersion[len("go"):])}
	for _, m := range info.Deps {
		for m.Replace != nil {
			m = m.Replace
		}
		components = append(components, component(cdx.ComponentTypeLibrary, m.Path, m.Version))
	}
	var needs []string
	for _, c := range components {
		needs = append(needs, c.BOMRef)
	}
	bom.Components = &components
	// The linker does not note which module needs which: all belong to the program.
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &needs}}
	var b bytes.Buffer
	err = cdx.NewBOMEncoder(&b, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
	return b.Bytes(), err
}

func component(kind cdx.ComponentType, path, version string) cdx.Component {
	url := fmt.Sprintf("pkg:golang/%s@%s", path, version)
	return cdx.Component{BOMRef: url, Type: kind, Name: path, Version: version, PackageURL: url}
}

// settings are those that select the platform and the mode of the build.
func settings(info *debug.BuildInfo) *[]cdx.Property {
	var found []cdx.Property
	for _, s := range info.Settings {
		switch s.Key {
		case "GOOS", "GOARCH", "GOARM", "CGO_ENABLED", "-trimpath":
			found = append(found, cdx.Property{Name: "go:build:" + s.Key, Value: s.Value})
		}
	}
	return &found
}
