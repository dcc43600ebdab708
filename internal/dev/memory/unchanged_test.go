package memory_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/shell-operator/shell-operator/internal/dev/memory"
)

// A server-side apply that changes nothing leaves the resource version, whichever clients have created, applied and patched the
// object, and however long ago: a hook that applies what it watches would run in a loop.
func TestAppliesWithoutAChange(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		// Each client writes a value that all write, and most write one of their own, too.
		var all []string
		for _, form := range []string{"apply", "join", "patch"} {
			all = append(all, form+" a", form+" b", form+" z")
		}
		clients := rapid.SliceOfNDistinct(rapid.SampledFrom(all), 1, 4, rapid.ID).Draw(r, "clients")
		clients = append([]string{rapid.SampledFrom([]string{"apply c", "create c"}).Draw(r, "creator")}, clients...)
		problem := ""
		synctest.Test(t, func(t *testing.T) { problem = applyAgain(t, clients) })
		if problem != "" {
			r.Fatal(problem)
		}
	})
}

func applyAgain(t *testing.T, clients []string) (problem string) {
	s := memory.New(memory.Options{Kinds: memory.BuiltIns(), Live: true})
	write := func(client string) (version string) {
		time.Sleep(1500 * time.Millisecond)
		form, manager, _ := strings.Cut(client, " ")
		method, path, media := http.MethodPatch, "/one", "application/apply-patch+yaml"
		body := fmt.Sprintf(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"all": "1", %q: "1"}}`, manager)
		switch form {
		case "join":
			manager += "-joins"
			body = `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"all": "1"}}`
		case "create":
			method, path, media = http.MethodPost, "", "application/json"
		case "patch":
			media, body = "application/merge-patch+json", `{"data": {"all": "1", "patched-`+manager+`": "1"}}`
		}
		r := httptest.NewRequestWithContext(t.Context(), method, "/api/v1/namespaces/default/configmaps"+path+"?fieldManager="+manager,
			strings.NewReader(body))
		r.Header.Set("Content-Type", media)
		answer := httptest.NewRecorder()
		s.ServeHTTP(answer, r)
		var o struct {
			Metadata struct{ ResourceVersion string }
		}
		if err := json.Unmarshal(answer.Body.Bytes(), &o); err != nil || answer.Code > http.StatusCreated {
			t.Errorf("%s: %d %s", client, answer.Code, answer.Body)
		}
		return o.Metadata.ResourceVersion
	}
	version := ""
	for _, client := range clients {
		version = write(client)
	}
	for range 2 {
		for _, client := range clients {
			if strings.HasPrefix(client, "create") || strings.HasPrefix(client, "patch") {
				continue
			}
			if got := write(client); got != version {
				return fmt.Sprintf("after %q, %q again makes version %s of %s", clients, client, got, version)
			}
		}
	}
	return ""
}
