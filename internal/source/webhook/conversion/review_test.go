package conversion

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// script is the Runner of the tests: hooks that behave as a word specifies.
type script struct {
	// does is the word for each hook; a hook without one converts as it should.
	does map[string]string
	// asked are the requests that hooks received.
	asked strings.Builder
}

var _ Runner = (*script)(nil)

func (s *script) Convert(_ context.Context, r Review) (*effect.ConversionAnswer, error) {
	answer, err := s.convert(r.Hook, r.Index, r.Step, r.Body)
	return judged(r, answer, err)
}

func (s *script) convert(h *hook.Hook, index int, st hook.ConversionStep, review []byte) (*effect.ConversionAnswer, error) {
	fmt.Fprintf(&s.asked, "%s, binding %d, %s to %s: %s\n", h.Name, index, st.From, st.To, review)
	var in struct {
		Request struct {
			DesiredAPIVersion string
			Objects           []map[string]any
		}
	}
	if err := json.Unmarshal(review, &in); err != nil {
		return nil, err
	}
	objects := in.Request.Objects
	for _, o := range objects {
		o["apiVersion"] = full(h.Conversions[index].CRDName, st.To)
	}
	metadata := func(i int) map[string]any { return objects[i]["metadata"].(map[string]any) }
	word, rest, _ := strings.Cut(s.does[h.Name], " ")
	switch word {
	case "":
	case "fails":
		return nil, errors.New("exit status 1: s3cret on stderr")
	case "silent":
		return nil, nil
	case "says":
		return &effect.ConversionAnswer{Failure: rest, Objects: make([]json.RawMessage, len(objects))}, nil
	case "loses":
		objects = objects[1:]
	case "doubles":
		objects = append(objects, objects[0])
	case "reverses":
		slices.Reverse(objects)
	case "skips":
		for _, o := range objects {
			o["apiVersion"] = in.Request.DesiredAPIVersion
		}
	case "shortens":
		objects[0]["apiVersion"] = st.To
	case "renames":
		metadata(0)["name"] = rest
	case "moves":
		metadata(0)["namespace"] = rest
	case "reuses":
		metadata(0)["uid"] = rest
	case "kinds":
		objects[0]["kind"] = rest
	case "nulls":
		objects[0] = nil
	case "strips":
		delete(objects[0], "metadata")
	default:
		return nil, fmt.Errorf("no such word: %s", word)
	}
	answer := &effect.ConversionAnswer{}
	for _, o := range objects {
		raw, err := json.MarshalIndent(o, "", " ") // as a hook with jq would
		if err != nil {
			return nil, err
		}
		answer.Objects = append(answer.Objects, raw)
	}
	return answer, nil
}

// TestReviews runs the scripts in testdata/reviews. A line of "hooks" is a hook, what it does, and its steps.
func TestReviews(t *testing.T) {
	golden.Archives(t, "testdata/reviews/*.txtar", func(t *testing.T, script *txtar.Archive) *txtar.Archive {
		if err := play(script); err != nil {
			t.Fatal(err)
		}
		return script
	})
}

// play replaces the results of a script.
func play(archive *txtar.Archive) error {
	section := func(name string) *[]byte {
		for i := range archive.Files {
			if archive.Files[i].Name == name {
				return &archive.Files[i].Data
			}
		}
		archive.Files = append(archive.Files, txtar.File{Name: name})
		return &archive.Files[len(archive.Files)-1].Data
	}
	s := &script{does: map[string]string{}}
	var all []*hook.Hook
	for line := range strings.Lines(string(*section("hooks"))) {
		head, steps, _ := strings.Cut(strings.TrimSpace(line), ": ")
		name, does, _ := strings.Cut(head, " ")
		h := hooks(widgets, steps)[0]
		h.Name, s.does[name] = name, does
		all = append(all, h)
	}
	var log bytes.Buffer
	handler := NewHandler(Options{Hooks: all, Runner: s, MaxBytes: 4096, Log: testLog(&log)})
	path, body, _ := strings.Cut(string(*section("review")), "\n")
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	*section("asked") = []byte(s.asked.String())
	*section("answer") = fmt.Appendf(nil, "%d %s\n%s\n", w.Code, w.Header().Get("Content-Type"),
		plainErrors(strings.TrimSpace(w.Body.String())))
	*section("log") = []byte(plainErrors(log.String()))
	if bytes.Contains(log.Bytes(), []byte("password")) {
		return errors.New("the log has the content of objects")
	}
	return nil
}

// plainErrors undoes what the JSON library does to keep tests from relying on its words.
func plainErrors(text string) string {
	return strings.ReplaceAll(text, "json: unable to unmarshal", "json: cannot unmarshal")
}

// testLog leaves out times.
func testLog(to *bytes.Buffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}
