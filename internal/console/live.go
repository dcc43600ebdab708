package console

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
)

// liveData is what the page of the stream of runs shows.
type liveData struct {
	Hook, Outcome, Text string
	Query               string
	Hooks               []string
}

func (c *Console) live(r *http.Request) (page, error) {
	q := r.URL.Query()
	d := liveData{Hook: q.Get("hook"), Outcome: q.Get("outcome"), Text: q.Get("text"), Query: queryAs(q)}
	err := c.link.get(r.Context(), "/hook/list.json", &d.Hooks)
	return page{Title: "Live", content: "live", Data: d, Still: true}, err
}

// openStreams bounds those of the console, each of which needs one of the operator.
const openStreams = 32

// maxEntry bounds a line of a tail.
const maxEntry = 256 << 10

// stream is an answer of server-sent events.
type stream struct {
	w     http.ResponseWriter
	flush *http.ResponseController
	// id is what the browser sends when it connects again; empty for nothing.
	id string
}

// streaming answers with server-sent events, unless as many are open as can be.
func (c *Console) streaming(open chan struct{}, send func(*stream, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		s := &stream{w: w, flush: http.NewResponseController(w)}
		if s.flush.Flush() != nil {
			return
		}
		select {
		case open <- struct{}{}:
			defer func() { <-open }()
			send(s, r)
		default: // the page connects again
			_ = s.send("", c.lostText(&fault{text: fmt.Sprintf("%d pages follow runs, which is the most", cap(open)), hint: "close some"}))
		}
	}
}

// send sends a message that htmx puts into the page. An event has a name instead.
func (s *stream) send(event string, text []byte) error {
	var b bytes.Buffer
	if s.id != "" {
		b.WriteString("id: " + s.id + "\n")
	}
	if event != "" {
		b.WriteString("event: " + event + "\n")
	}
	for line := range bytes.Lines(text) {
		b.WriteString("data: ")
		b.Write(bytes.TrimRight(line, "\r\n"))
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	if _, err := s.w.Write(b.Bytes()); err != nil {
		return err
	}
	return s.flush.Flush()
}

// entries are those of a tail, as they come. The channel ends with the tail.
func entries(ctx context.Context, body io.Reader) <-chan history.Entry {
	all := make(chan history.Entry, 100)
	go func() {
		defer close(all)
		lines := bufio.NewScanner(body)
		lines.Buffer(nil, maxEntry)
		for lines.Scan() {
			var e history.Entry
			if json.Unmarshal(lines.Bytes(), &e) != nil {
				continue
			}
			select {
			case all <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	return all
}

// together is how long entries are collected for one message: a browser renders a hundred lines as fast as one.
const together = 100 * time.Millisecond

// tail follows the runs of a hook or of all, and connects again when the operator has ended. It calls each with what came together, and
// lost with the error of a connection, or nil when there is one again. Each connection begins with the ends of the last runs.
func (c *Console) tail(ctx context.Context, hook string, each func([]history.Entry) error, lost func(error) error) {
	path := "/tail.json?last=50"
	if hook != "" {
		path = "/hook/" + segments(hook) + path
	}
	wait := firstDelay
	for ctx.Err() == nil {
		body, err := c.link.stream(ctx, path)
		if lost(err) != nil {
			return
		}
		if err != nil {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
			}
			wait = min(2*wait, maxDelay)
			continue
		}
		wait = firstDelay
		if collect(ctx, body, each) != nil {
			return
		}
		select { // the operator has ended
		case <-time.After(firstDelay):
		case <-ctx.Done():
		}
	}
}

// collect calls each with the entries that came together, until the tail ends. It closes the tail, and returns an error of each.
func collect(ctx context.Context, body io.ReadCloser, each func([]history.Entry) error) error {
	ctx, cancel := context.WithCancel(ctx)
	all := entries(ctx, body)
	defer func() {
		cancel()
		_ = body.Close()
		for range all { // until its goroutine has ended
		}
	}()
	for e := range all {
		batch, full := []history.Entry{e}, time.After(together)
		for open := true; open && len(batch) < 500; {
			select {
			case e, open = <-all:
				if open {
					batch = append(batch, e)
				}
			case <-full:
				open = false
			}
		}
		if err := each(batch); err != nil {
			return err
		}
	}
	return nil
}

// keep reports whether an entry passes the filter of the page.
func (d *liveData) keep(e *history.Entry) bool {
	switch d.Outcome {
	case "ended":
		if e.Kind != history.Ended && e.Kind != history.Lost {
			return false
		}
	case "failed":
		if e.Kind != history.Lost && (e.Kind != history.Ended || !strings.HasPrefix(e.Text, "failed")) {
			return false
		}
	}
	return d.Text == "" || strings.Contains(strings.ToLower(e.Text+" "+e.Hook+" "+e.Run), strings.ToLower(d.Text))
}

// lostText is the line of a page about an operator that does not answer.
func (c *Console) lostText(err error) []byte {
	var b bytes.Buffer
	s := shown{}
	if gone := (*lost)(nil); errors.As(err, &gone) {
		s.Lost, s.Since = problemOf(gone.error), gone.since
	} else if err != nil {
		s.Lost, s.Answered, s.Slow = problemOf(err), true, errors.As(err, new(*slow))
	}
	_ = c.templates.ExecuteTemplate(&b, "lostPart", s)
	return b.Bytes()
}

func (c *Console) streamLive(s *stream, r *http.Request) {
	q := r.URL.Query()
	d := liveData{Hook: q.Get("hook"), Outcome: q.Get("outcome"), Text: q.Get("text")}
	// What was shown is not shown again when the browser or the console connects again.
	seen, _ := time.Parse(time.RFC3339Nano, r.Header.Get("Last-Event-ID"))
	c.tail(r.Context(), d.Hook, func(batch []history.Entry) error {
		var b bytes.Buffer
		for i := range batch {
			e := &batch[i]
			if e.Kind == history.Ended && !e.Time.After(seen) || !d.keep(e) {
				continue
			}
			if err := c.templates.ExecuteTemplate(&b, "entry", e); err != nil {
				return err
			}
			if e.Kind == history.Ended {
				seen = e.Time
			}
		}
		if b.Len() == 0 {
			return nil
		}
		s.id = seen.Format(time.RFC3339Nano)
		return s.send("", b.Bytes())
	}, func(err error) error { return s.send("", c.lostText(err)) })
}

// streamRun sends the page of a run when it has changed, until it has ended.
func (c *Console) streamRun(s *stream, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	r = r.WithContext(ctx)
	send := func() (ended bool, _ error) {
		p, err := c.run(r)
		p.Path = "/runs/" + segments(r.PathValue("id"))
		if err != nil { // also of an operator that has started again: it does not know the run, or not yet
			return false, s.send("", c.lostText(err))
		}
		v, err := c.shown(r, p, nil)
		if err != nil {
			return true, err
		}
		var b bytes.Buffer
		if err := c.templates.ExecuteTemplate(&b, "update", v); err != nil {
			return true, err
		}
		if err := s.send("", b.Bytes()); err != nil {
			return true, err
		}
		d, _ := p.Data.(*runData)
		return !d.InProgress(), nil
	}
	var of history.Run
	changed := make(chan struct{}, 1)
	if err := c.link.get(ctx, "/run/"+segments(r.PathValue("id"))+".json", &of); err == nil {
		following.Go(func() {
			c.tail(ctx, of.Hook, func([]history.Entry) error {
				select {
				case changed <- struct{}{}:
				default:
				}
				return nil
			}, func(error) error { return nil })
		})
	}
	for {
		ended, err := send()
		if err != nil {
			return
		}
		if ended {
			_ = s.send("done", []byte("done"))
			return
		}
		select {
		case <-changed:
		case <-time.After(2 * time.Second):
		case <-ctx.Done():
			return
		}
	}
}
