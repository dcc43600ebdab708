package testfile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shell-operator/shell-operator/docs"
	"github.com/shell-operator/shell-operator/internal/schema"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// fileSchema is the published one.
var fileSchema = sync.OnceValues(func() (*schema.Schema, error) { return schema.Parse(docs.TestSchema) })

// check reports what of a file, as JSON, does not fit the schema.
func (r *reader) check(text []byte) {
	s, err := fileSchema()
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var tree any
	if err = errors.Join(err, dec.Decode(&tree)); err != nil {
		r.problem(r.root, "", "%v", err)
		return
	}
	for _, v := range s.Check(tree, formats) {
		asText := v.Rule == schema.Type && slices.Contains(v.Schema.Types, "string") && isScalar(v.Value)
		if !asText || strings.Contains(v.Path, "expect.") {
			r.explain(&v)
		}
	}
}

// isScalar reports whether a value is also read as the text as which it is written.
func isScalar(v any) bool {
	_, isNumber := v.(json.Number)
	_, isBool := v.(bool)
	return isNumber || isBool
}

// ofCase is the part of a path before the keys of a case.
var ofCase = regexp.MustCompile(`^cases\[\d+\]\.?`)

// named returns a text that begins with the path of what it is about; the line says in which case that is.
func named(path, text string) string {
	if path == "" {
		path = "the file"
	}
	return strings.TrimSpace(ofCase.ReplaceAllString(path, "") + " " + text)
}

// explain adds the problem of a violation.
func (r *reader) explain(v *schema.Violation) {
	r.broken = append(r.broken, v.Path)
	key, at, _ := wire.NodeAt(r.root, v.Path)
	if v.Rule == schema.Unknown || v.Rule == schema.Required {
		at = key
	}
	problem, hint := wire.Explain(v)
	r.problem(at, cmp.Or(hints[named(v.Path, "")], hint), "%s", named(v.Path, problem))
}

// hints are for keys that need more than the schema says.
var hints = map[string]string{
	"the file": "write cases: with a list of cases", "cases": "add cases: with a list of at least one case",
	"name": "add name: with what the case shows", "review.UPDATE": "list the files of the old and the new object",
}

var httpRequest = regexp.MustCompile(`^[A-Z]+ /`)

// formats are the checks of texts that have a format in the schema.
var formats = schema.Formats{
	"http-request": func(text string) (problem, hint string) {
		if !httpRequest.MatchString(text) {
			problem = fmt.Sprintf("must be a method and a path, it is %q", text)
		}
		return problem, `write for instance "POST /things"`
	},
	"header-line": func(text string) (problem, hint string) {
		if name, _, ok := strings.Cut(text, ":"); !ok || name == "" {
			problem = fmt.Sprintf("has %q, which is no header", text)
		}
		return problem, `write for instance "Accept: text/plain"`
	},
	"manifest": func(text string) (problem, hint string) {
		if !IsManifest(text) {
			problem = fmt.Sprintf("needs the new version of an object, %q is no manifest", text)
		}
		return problem, "name a manifest, such as fixtures/web-2.yaml"
	},
	"reference": isReference,
	"requeue": func(text string) (problem, hint string) {
		if strings.Contains(text, "/") {
			return isReference(text)
		}
		return "", "" // a binding
	},
	"go-duration": func(text string) (problem, hint string) {
		if _, err := time.ParseDuration(text); err != nil {
			problem = fmt.Sprintf("is %q, which is no duration", text)
		}
		return problem, "write for instance 5m"
	},
}

func isReference(text string) (problem, hint string) {
	if slashes := strings.Count(text, "/"); !IsManifest(text) && (slashes < 1 || slashes > 2) {
		problem = fmt.Sprintf("is %q, which is no reference of an object", text)
	}
	return problem, "write a manifest, KIND/NAME or KIND/NAMESPACE/NAME"
}
