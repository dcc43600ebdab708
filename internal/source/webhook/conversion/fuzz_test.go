package conversion

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	gojson "github.com/go-json-experiment/json"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/shell-operator/shell-operator/internal/effect"
)

// judged is what a Runner does with an answer.
func judged(r Review, answer *effect.ConversionAnswer, err error) (*effect.ConversionAnswer, error) {
	if _, err := r.Judge(answer, err); err != nil {
		return nil, err
	}
	return answer, nil
}

// upgrade is a Runner whose hooks change the version and nothing else.
type upgrade struct{}

func (upgrade) Convert(_ context.Context, rv Review) (*effect.ConversionAnswer, error) {
	h, index, s, text := rv.Hook, rv.Index, rv.Step, rv.Body
	r := &review{}
	if err := gojson.Unmarshal(text, r, lenient); err != nil {
		panic("the hook cannot read " + string(text) + ": " + err.Error())
	}
	answer := &effect.ConversionAnswer{}
	for _, raw := range r.Request.Objects {
		o, err := readObject(raw)
		if err != nil {
			panic(err)
		}
		made, _ := json.Marshal(map[string]any{"apiVersion": full(h.Conversions[index].CRDName, s.To), "kind": o.kind,
			"metadata": map[string]any{"name": o.name, "namespace": o.namespace, "uid": o.uid}})
		answer.Objects = append(answer.Objects, made)
	}
	return judged(rv, answer, nil)
}

// FuzzReview feeds bytes to a Handler: what it answers is a review that belongs to the question.
func FuzzReview(f *testing.F) {
	scripts, err := filepath.Glob("testdata/reviews/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, script := range scripts {
		archive, err := txtar.ParseFile(script)
		if err != nil {
			f.Fatal(err)
		}
		_, body, _ := bytes.Cut(archive.Files[1].Data, []byte("\n"))
		f.Add(body)
	}
	h := NewHandler(Options{Hooks: hooks(widgets, "v1alpha1>v1beta1 v1beta1>v1", "v1>v1beta1"), Runner: upgrade{},
		Log: slog.New(slog.DiscardHandler)})
	f.Fuzz(func(t *testing.T, body []byte) {
		r := httptest.NewRequest(http.MethodPost, "/"+widgets, bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			return
		}
		var in review
		if err := gojson.Unmarshal(body, &in, lenient); err != nil || in.Request == nil {
			t.Fatalf("answered what cannot be read: %v", err)
		}
		var out struct {
			Response struct {
				UID              string
				ConvertedObjects []json.RawMessage
				Result           struct{ Status, Message string }
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
			t.Fatalf("%v: %s", err, w.Body)
		}
		if out.Response.UID != in.Request.UID {
			t.Errorf("got uid %q, want %q", out.Response.UID, in.Request.UID)
		}
		if out.Response.Result.Status != "Success" {
			if out.Response.Result.Message == "" || bytes.Contains(w.Body.Bytes(), []byte("see the log")) {
				t.Errorf("bad failure: %s", w.Body)
			}
			return
		}
		if len(out.Response.ConvertedObjects) != len(in.Request.Objects) {
			t.Fatalf("got %d objects for %d", len(out.Response.ConvertedObjects), len(in.Request.Objects))
		}
		for i, raw := range out.Response.ConvertedObjects {
			before, err := readObject(in.Request.Objects[i])
			if err != nil {
				t.Fatal(err)
			}
			after, err := readObject(raw)
			if err != nil || after.version != in.Request.Desired || after.identity != before.identity {
				t.Errorf("object %d: %v: %s became %s", i, err, before.json, raw)
			}
			if before.version == after.version && !bytes.Equal(before.json, after.json) {
				t.Errorf("object %d was changed: %s became %s", i, before.json, raw)
			}
		}
	})
}
