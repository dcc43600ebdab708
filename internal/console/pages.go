package console

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug"
	"github.com/shell-operator/shell-operator/internal/debug/history"
)

//go:embed page/*.html
var templates embed.FS

//go:embed assets
var assets embed.FS

// page is one that is about to be rendered.
type page struct {
	// Title is the title of the page, Path its address below the base.
	Title, Path string
	// Status is the status of the operator, for the header; nil if the page has not read it. To is a page that is opened instead.
	Status *debug.Status
	To     string
	// content is the template of its content, Data what that shows.
	content string
	Data    any
	// Still pages stay as they are; the others are polled.
	Still bool
}

// problem is an error with the next step, in its place on a page.
type problem struct{ Text, Hint string }

// routes are the pages. Those with an error show it.
func (c *Console) routes() http.Handler {
	mux := http.NewServeMux()
	for pattern, show := range map[string]func(*http.Request) (page, error){
		"GET /{$}": c.overview, "GET /hooks/{name...}": c.hook, "GET /queues/{name...}": c.queue, "GET /runs/{id...}": c.run,
		"GET /objects/{object...}": c.object, "GET /sets/{id...}": c.set,
		"GET /parked":     c.list("Parked tasks", "/parked/list", false, "parked/retry", "parked/drop"),
		"GET /sets":       c.list("Sets of objects", "/sets/list", true),
		"GET /finalizers": c.list("Finalizers", "/finalizers/list", true),
		"GET /live":       c.live, "GET /search": c.search, "GET /act/{action...}": c.ask,
		"POST /act/{action...}": c.act,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), c.link.limit) // of all requests of the page together
			defer cancel()
			p, err := show(r.WithContext(ctx))
			c.write(w, r, p, err)
		})
	}
	mux.HandleFunc("GET /stream/live", c.streamLive)
	mux.HandleFunc("GET /open", func(w http.ResponseWriter, r *http.Request) { c.html(w, "open", nil) })
	files, _ := fs.Sub(assets, "assets")
	mux.HandleFunc("GET /assets/{name}", func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, files, r.PathValue("name")) })
	return mux
}

// parse reads the templates. They are part of the program: an error is a bug that each test finds.
func (c *Console) parse() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"patience": func() int64 { return (c.link.limit + time.Second).Milliseconds() }, // of a page that waits for the operator
		"base":     func() string { return c.access.base }, "text": plain, "mark": mark, "count": debug.Count, "lasts": history.Duration.String,
		"lower": strings.ToLower,
		"brief": debug.OneLine, "filled": func(t debug.Table) debug.Table { return t.Filled(c.o.now()) },
		"ago": func(t time.Time) string { return ago(c.o.now().Sub(t)) },
		"until": func(t time.Time) string {
			return history.Duration(max(0, t.Sub(c.o.now()).Round(time.Second))).String()
		},
		"clock": func(t time.Time) string { return t.Local().Format("15:04:05") },
		"stamp": func(t time.Time) string { return t.Format(time.RFC3339) },
		"now":   c.o.now, "command": c.command, "path": segments, "join": strings.Join, "word": word,
		"objectOf": objectOf, "object": objectPath, "outcome": outcomeMark, "label": label,
		"named": func(a debug.Action, of string) any {
			asks := ""
			if a.Ask != "" {
				for _, f := range c.actionRoute(a.Name).Command.Flags {
					if f.Field == a.Ask {
						asks = strings.ReplaceAll(f.Name, "-", " ")
					}
				}
			}
			return struct {
				debug.Action
				Of, Asks, Href string
			}{a, of, asks, c.access.base + "/act/" + a.Name + queryAs(a.Form)}
		},
		"first": func(words string) string { return strings.Split(words, " ")[0] },
		"ageOf": func(age any) string {
			if t, ok := age.(time.Time); ok {
				return ago(c.o.now().Sub(t))
			}
			return fmt.Sprint(age)
		},
		"more":  func(all, shown int) int { return max(0, all-shown) },
		"query": queryOf,
		"tab": func(path, name, current string) any {
			return struct {
				Path, Name string
				Current    bool
			}{path, name, path == current || path != "/" && strings.HasPrefix(current, path+"/")}
		},
		"act": func(action string, fields ...string) string {
			return c.access.base + "/act/" + action + queryOf(fields...)
		},
		"actLane": func(action, queue, key string) string { // without a key it would be an action on all lanes
			return c.access.base + "/act/" + action + "?" + url.Values{"name": {queue}, "key": {key}}.Encode()
		},
	}).ParseFS(templates, "page/*.html"))
}

// segments escapes a name for an address: slashes stay. Browsers and http.ServeMux clean an address with an empty segment, or with dots:
// there, the slashes are escaped.
func segments(name string) string {
	parts := strings.Split(name, "/")
	if len(parts) > 1 && (slices.Contains(parts, "") || slices.Contains(parts, ".") || slices.Contains(parts, "..")) {
		return url.PathEscape(name)
	}
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}

// queryOf makes a query of names and values. Empty values are left out.
func queryOf(fields ...string) string {
	query := url.Values{}
	for pair := range slices.Chunk(fields, 2) {
		if pair[1] != "" {
			query.Set(pair[0], pair[1])
		}
	}
	return queryAs(query)
}

// shown is what the frame of a page shows.
type shown struct {
	page
	// Own is the version of the console. Elsewhere is the command that opens the page.
	Own, Elsewhere string
	// Content is the rendered content. Lost is why there is none, or no newer one.
	Content template.HTML
	Lost    *problem
	// Since is when the operator did not answer any more. Answered: it does, with Lost.
	Since    time.Time
	Answered bool
	// Fresh is what the page would show without Lost: nothing yet.
	Fresh bool
	// Query is the query of the address, for requests that repeat it.
	Query string
}

// write renders a page, or for a request of htmx its content. An operator that does not answer changes nothing of a page but a line.
func (c *Console) write(w http.ResponseWriter, r *http.Request, p page, err error) {
	if errors.Is(err, context.Canceled) && r.Context().Err() != nil {
		return // the browser has left
	}
	s, err := c.shown(r, p, err)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if r.Header.Get("HX-Request") != "" {
		if p.Still && err == nil { // it was polled until now: the run has ended, or the operator answers again
			w.Header().Set("HX-Refresh", "true")
		}
		c.html(w, "update", s)
		return
	}
	if p.To != "" && err == nil {
		http.Redirect(w, r, c.access.base+p.To, http.StatusSeeOther)
		return
	}
	c.html(w, "frame", s)
}

// shown renders the content of a page.
func (c *Console) shown(r *http.Request, p page, err error) (s shown, _ error) {
	if p.Path == "" {
		p.Path = r.URL.EscapedPath()
	}
	query := r.URL.Query()
	query.Del("seen")
	s = shown{page: p, Own: c.o.Version, Query: queryAs(query)}
	var gone *lost
	switch {
	case errors.As(err, &gone):
		s.Lost, s.Since = problemOf(gone.error), gone.since
		if s.Title == "" {
			s.Title = "No answer"
		}
	case err != nil && r.Header.Get("HX-Request") != "": // such as the refusal of an operator that has started again, and loads its hooks
		s.Lost, s.Answered = problemOf(err), true
	case err != nil:
		s.content, s.Data = "problem", problemOf(err)
		if s.Title == "" {
			s.Title = "Not found"
		}
	}
	s.Fresh = s.Lost != nil && r.Header.Get("HX-Request") == ""
	s.Elsewhere = c.command("console", p.Path+s.Query)
	if s.Lost == nil {
		if s.Status == nil {
			s.Status = &debug.Status{}
			_ = c.link.get(r.Context(), "/status.json", s.Status) // without it, the header is empty
		}
		var b bytes.Buffer
		if err := c.templates.ExecuteTemplate(&b, s.content, s.Data); err != nil {
			return s, err
		}
		s.Content = template.HTML(b.String())
	}
	return s, nil
}

func queryAs(q url.Values) string {
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

func (c *Console) html(w http.ResponseWriter, name string, data any) {
	var b bytes.Buffer
	if err := c.templates.ExecuteTemplate(&b, name, data); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b.Bytes())
}

// problemOf is an error of the operator with its hint.
func problemOf(err error) *problem {
	p := &problem{Text: err.Error()}
	if hinted := (interface{ Hint() string })(nil); errors.As(err, &hinted) {
		p.Hint = hinted.Hint()
	}
	return p
}

// part reads a part of a page. What the operator answers instead is shown in its place; only a lost operator is the error of the page.
func (c *Console) part(r *http.Request, path string, into any) (*problem, error) {
	err := c.link.get(r.Context(), path, into)
	if err == nil || errors.As(err, new(*lost)) || errors.Is(err, context.Canceled) {
		return nil, err
	}
	return problemOf(err), nil
}
