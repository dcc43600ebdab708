package console

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/shell-operator/shell-operator/internal/debug/history"
)

// runData is what the page of a run shows.
type runData struct {
	history.Run
	// Previous and Next are the neighbours of the run in the history of the hook.
	Previous, Next string
	// Contexts are the first ones, and Left is how many follow. NoContexts is why there are none.
	Contexts   []shownContext
	Left       int
	NoContexts *problem
}

// InProgress reports that the run has not ended.
func (d *runData) InProgress() bool { return d.Status == history.Running }

// shownContext is a binding context of a recorded run.
type shownContext struct{ Title, Text string }

// shownContexts limits the contexts of a page.
const shownContexts = 50

func (c *Console) run(r *http.Request) (page, error) {
	d, id := runData{}, r.PathValue("id")
	p := page{Title: "Run " + plain(id), content: "run", Data: &d}
	if err := c.link.get(r.Context(), "/run/"+segments(id)+".json", &d.Run); err != nil {
		return p, err
	}
	p.Title = "Run " + plain(d.ID) + " of " + plain(d.Hook)
	var runs []history.Run
	if _, err := c.part(r, "/run/list.json"+queryOf("hook", d.Hook, "all", "true"), &runs); err != nil {
		return p, err
	}
	if i := slices.IndexFunc(runs, func(other history.Run) bool { return other.ID == d.ID }); i >= 0 {
		if i > 0 {
			d.Next = runs[i-1].ID
		}
		if i+1 < len(runs) {
			d.Previous = runs[i+1].ID
		}
	}
	if d.InProgress() {
		return p, nil // it is recorded at its end
	}
	p.Still = true
	var contexts []json.RawMessage
	problem, err := c.part(r, "/run/"+segments(d.ID)+"/context.json", &contexts)
	d.NoContexts, d.Left = problem, max(0, len(contexts)-shownContexts)
	for i, text := range contexts[:len(contexts)-d.Left] {
		var b bytes.Buffer
		if json.Indent(&b, text, "", "  ") != nil {
			b.Reset()
			b.Write(text)
		}
		d.Contexts = append(d.Contexts, shownContext{titleOf(i, text), b.String()})
	}
	return p, err
}

// titleOf names a context by what the hook sees first.
func titleOf(i int, text json.RawMessage) string {
	var c struct {
		Binding, Type, WatchEvent string
		Object                    struct {
			Kind     string
			Metadata struct{ Namespace, Name string }
		}
	}
	_ = json.Unmarshal(text, &c) // a context of another form has its number only
	words := []string{"Context " + strconv.Itoa(i+1), c.Binding, c.Type, c.WatchEvent,
		strings.TrimSpace(c.Object.Kind + " " + strings.Trim(c.Object.Metadata.Namespace+"/"+c.Object.Metadata.Name, "/"))}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " · ")
}
