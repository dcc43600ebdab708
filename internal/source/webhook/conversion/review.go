package conversion

import (
	"bufio"
	"errors"
	"io"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// review is a ConversionReview, v1 or v1beta1, which have the same fields.
type review struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Request    *request `json:"request"`
}

type request struct {
	UID     string           `json:"uid"`
	Desired string           `json:"desiredAPIVersion"`
	Objects []jsontext.Value `json:"objects"`
}

const (
	reviewKind    = "ConversionReview"
	reviewVersion = "apiextensions.k8s.io/v1"
)

// reviewVersions are the supported conversionReviewVersions, the preferred one first.
var reviewVersions = []string{"v1", "v1beta1"}

// lenient accepts what the API server accepts in objects.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// readReview parses a whole review. With an error, the review has the fields before the error.
func readReview(body io.Reader) (*review, error) {
	r := &review{}
	err := json.UnmarshalRead(body, r, lenient)
	return r, errors.Join(err, r.complete())
}

// complete sets the type of a review without one, and rejects other types.
func (r *review) complete() error {
	if r.Kind == "" {
		r.Kind = reviewKind
	}
	if r.APIVersion == "" {
		r.APIVersion = reviewVersion
	}
	if r.Kind != reviewKind {
		return errors.New("it is no " + reviewKind)
	}
	return nil
}

// forHook is the review of one step, with its objects.
func (r *review) forHook(objects []object) []byte {
	b := r.begin(nil, "request")
	b = append(b, `,"desiredAPIVersion":`...)
	b = appendQuoted(b, r.Request.Desired)
	b = append(b, `,"objects":[`...)
	for i, o := range objects {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, o.json...)
	}
	return append(b, "]}}"...)
}

// writeSuccess writes the response. Objects are copied as bytes.
func (r *review) writeSuccess(w http.ResponseWriter, objects []object) error {
	w.Header().Set("Content-Type", "application/json")
	out := bufio.NewWriterSize(w, 64<<10) // keeps its error for Flush
	_, _ = out.Write(append(r.begin(nil, "response"), `,"convertedObjects":[`...))
	for i, o := range objects {
		if i > 0 {
			_, _ = out.WriteString(",")
		}
		_, _ = out.Write(o.json)
	}
	_, _ = out.WriteString(`],"result":{"status":"Success"}}}` + "\n")
	return out.Flush()
}

func (r *review) writeFailure(w http.ResponseWriter, message string) error {
	w.Header().Set("Content-Type", "application/json")
	b := append(r.begin(nil, "response"), `,"convertedObjects":[],"result":{"status":"Failure","message":`...)
	b = appendQuoted(b, message)
	_, err := w.Write(append(b, "}}}\n"...))
	return err
}

// begin writes the common beginning of reviews.
func (r *review) begin(b []byte, part string) []byte {
	b = append(b, `{"apiVersion":`...)
	b = appendQuoted(b, r.APIVersion)
	b = append(b, `,"kind":`...)
	b = appendQuoted(b, r.Kind)
	b = append(b, `,"`+part+`":{"uid":`...)
	return appendQuoted(b, r.Request.UID)
}

// appendQuoted replaces invalid UTF-8.
func appendQuoted(b []byte, text string) []byte {
	b, _ = jsontext.AppendQuote(b, text)
	return b
}
