// Package vex checks the OpenVEX document of the image with a shell with the library of its format.
package vex

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/openvex/go-vex/pkg/vex"
)

// TestDocument: it is valid, it is about the jq that the Dockerfile installs, and docs/reference/image.md has a row for each
// vulnerability that affects the image.
func TestDocument(t *testing.T) {
	dockerfile, err := os.ReadFile("../../deploy/image/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^ARG JQ_VERSION=(.*)$`).FindSubmatch(dockerfile)
	if version == nil {
		t.Fatal("the Dockerfile has no JQ_VERSION")
	}
	page, err := os.ReadFile("../../docs/reference/image.md")
	if err != nil {
		t.Fatal(err)
	}
	file := "jq-" + string(version[1]) + ".openvex.json"
	document, err := vex.Open(filepath.Join("../../deploy/image", file))
	if err != nil {
		t.Fatal(err)
	}
	if document.Context != vex.ContextLocator() || !strings.HasSuffix(document.ID, "/"+file) || document.Timestamp == nil {
		t.Errorf("context %q, id %q, timestamp %v", document.Context, document.ID, document.Timestamp)
	}
	seen := map[vex.VulnerabilityID]bool{}
	for _, s := range document.Statements {
		name := s.Vulnerability.Name
		if err := s.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if seen[name] {
			t.Errorf("%s has two statements", name)
		}
		seen[name] = true
		if len(s.Products) != 1 || len(s.Products[0].Subcomponents) != 1 || s.Products[0].Subcomponents[0].ID != "pkg:generic/jq@"+
			string(version[1]) {
			t.Errorf("%s is about %+v", name, s.Products)
		}
		if listed := strings.Contains(string(page), "\n| "+string(name)+" | "); listed != (s.Status == vex.StatusAffected) {
			t.Errorf("%s is %s, and in docs/reference/image.md: %t", name, s.Status, listed)
		}
	}
	if len(seen) == 0 {
		t.Error("no statements")
	}
}
