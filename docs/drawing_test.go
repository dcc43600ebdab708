package docs_test

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// plainWords are words of Kubernetes and of everyday language, which need no glossary.
var plainWords = strings.Fields("a b of any object objects added cluster schedule request process language shell Python Go")

// TestDrawing reads the drawing of README: its text is text, in the words of the glossary, it needs no other file, and it has dark colours.
func TestDrawing(t *testing.T) {
	drawing, err := os.ReadFile("flow.svg")
	if err != nil {
		t.Fatal(err)
	}
	glossary, err := os.ReadFile("reference/glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	known := slices.Clone(plainWords)
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \|`).FindAllStringSubmatch(string(glossary), -1) {
		for _, word := range strings.FieldsFunc(row[1], func(r rune) bool { return r == ' ' || r == ',' || r == '`' }) {
			known = append(known, word, word+"s")
		}
	}
	texts := 0
	for _, label := range labels(t, string(drawing)) {
		texts++
		for _, word := range strings.FieldsFunc(label, func(r rune) bool { return r == ' ' || r == ',' }) {
			if !slices.Contains(known, word) {
				t.Errorf("%q of %q is no term of the glossary", word, label)
			}
		}
	}
	if texts < 10 {
		t.Errorf("%d texts", texts)
	}
	_, dark, found := strings.Cut(string(drawing), "@media (prefers-color-scheme: dark) {")
	if !found {
		t.Fatal("it has no dark colours")
	}
	for _, class := range regexp.MustCompile(`(?m)^    (\.?[a-z]+) \{[^}]*#`).FindAllStringSubmatch(string(drawing), -1) {
		if !strings.Contains(dark, "      "+class[1]+" {") {
			t.Errorf("%s has no dark colour", class[1])
		}
	}
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`!\[[^\]]{40,}\]\(docs/flow\.svg\)`).Match(readme) {
		t.Error("README does not show it with a description")
	}
}

// labels are the texts of an SVG file of plain shapes.
func labels(t *testing.T, drawing string) (all []string) {
	t.Helper()
	plain := strings.Fields("svg title desc style defs marker path rect text")
	for d := xml.NewDecoder(strings.NewReader(drawing)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		if !slices.Contains(plain, start.Name.Local) {
			t.Errorf("it has the element %s", start.Name.Local)
		}
		for _, a := range start.Attr {
			if strings.Contains(a.Value, "://") && a.Name.Local != "xmlns" {
				t.Errorf("it refers to %s", a.Value)
			}
		}
		if start.Name.Local == "text" {
			var text string
			if err := d.DecodeElement(&text, &start); err != nil {
				t.Fatal(err)
			}
			all = append(all, text)
		}
	}
}
