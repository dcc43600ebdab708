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
	Span span
	// Previous and Next are those of the history of the hook.
	Previous, Next string
	Contexts       []shownContext
	// NoContexts is why there are none, Find what is searched for in them.
	NoContexts *problem
	Find       string
	// Left are the contexts without what is searched for.
	Left int
	// Shown is that of the page.
	Shown string
}

// InProgress reports that the run has not ended.
func (d *runData) InProgress() bool { return d.Status == history.Running }

// shownContext is a binding context of a recorded run.
type shownContext struct {
	Title string
	// Pieces are the text, cut at what is searched for.
	Pieces []piece
	Open   bool
}

type piece struct {
	Text string
	Hit  bool
}

// shownContexts limits the contexts of a page.
const shownContexts = 50

func (c *Console) run(r *http.Request) (page, error) {
	d, unchanged, err := c.runData(r)
	p := page{Title: "Run " + plain(r.PathValue("id")), content: "run", Data: &d, Shown: d.Shown, Unchanged: unchanged}
	if err == nil {
		p.Title = "Run " + plain(d.ID) + " of " + plain(d.Hook)
		if d.InProgress() {
			p.Stream = "/stream/runs/" + segments(d.ID)
		}
		p.Still = !d.InProgress() && d.Next != ""
	}
	return p, err
}

// runData reads what the page shows. A run that has ended changes no more, and its contexts may be large: unchanged reports that the page
// has them, and the same neighbours.
func (c *Console) runData(r *http.Request) (d runData, unchanged bool, err error) {
	id := r.PathValue("id")
	if err := c.link.get(r.Context(), "/run/"+segments(id)+".json", &d.Run); err != nil {
		return d, false, err
	}
	d.Span, d.Find = spanOf([]history.Run{d.Run}, 0), r.URL.Query().Get("find")
	var runs []history.Run
	if _, err := c.part(r, "/hook/"+segments(d.Hook)+"/runs.json?all=true", &runs); err != nil {
		return d, false, err
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
		return d, false, nil // it is recorded at its end
	}
	complete := strings.Join([]string{d.ID, d.Previous, d.Next}, " ")
	if r.URL.Query().Get("shown") == complete {
		return d, true, nil
	}
	var contexts []json.RawMessage
	d.NoContexts, err = c.part(r, "/run/"+segments(d.ID)+"/context.json", &contexts)
	d.Contexts, d.Left = contextsOf(contexts, d.Find)
	if d.NoContexts == nil {
		d.Shown = complete
	}
	return d, false, err
}

// shownOf are the contexts that contain a text, and how many do not, or are too many.
func contextsOf(contexts []json.RawMessage, find string) (all []shownContext, left int) {
	for i, text := range contexts {
		var b bytes.Buffer
		if json.Indent(&b, text, "", "  ") != nil {
			b.Reset()
			b.Write(text)
		}
		shown := b.String()
		if len(all) == shownContexts || find != "" && !strings.Contains(strings.ToLower(shown), strings.ToLower(find)) {
			left++
			continue
		}
		all = append(all, shownContext{titleOf(i, text), piecesOf(plain(shown), find), find != "" || len(contexts) == 1})
	}
	return all, left
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

// piecesOf cuts a text at what is searched for, regardless of case.
func piecesOf(text, find string) (all []piece) {
	lower, find := strings.ToLower(text), strings.ToLower(find)
	for find != "" && len(lower) == len(text) && len(all) < 1000 {
		at := strings.Index(lower, find)
		if at < 0 {
			break
		}
		all = append(all, piece{Text: text[:at]}, piece{text[at : at+len(find)], true})
		text, lower = text[at+len(find):], lower[at+len(find):]
	}
	return append(all, piece{Text: text})
}
