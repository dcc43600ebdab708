package console

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
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

// maxTogether bounds what is sent in one message.
const maxTogether = 256 << 10

// stream is an answer of server-sent events.
type stream struct {
	w http.ResponseWriter
	// seen is the end of the last run that was sent: the browser sends it when it connects again.
	seen time.Time
}

// send sends a message that htmx puts into the page.
func (s *stream) send(text []byte) error {
	var b bytes.Buffer
	b.WriteString("id: " + s.seen.Format(time.RFC3339Nano) + "\n")
	for line := range bytes.Lines(text) {
		b.WriteString("data: ")
		b.Write(bytes.TrimRight(line, "\r\n"))
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	if _, err := s.w.Write(b.Bytes()); err != nil {
		return err
	}
	return http.NewResponseController(s.w).Flush()
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
		s.Lost, s.Answered = problemOf(err), true
	}
	_ = c.templates.ExecuteTemplate(&b, "lostPart", s)
	return b.Bytes()
}

// streamLive sends entries as they come, and connects again when the operator has ended, or has no stream left. Each connection begins
// with the ends of the last runs.
func (c *Console) streamLive(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	// What was shown is not shown again when the browser or the console connects again.
	s := &stream{w: w}
	s.seen, _ = time.Parse(time.RFC3339Nano, r.Header.Get("Last-Event-ID"))
	q := r.URL.Query()
	d := liveData{Hook: q.Get("hook"), Outcome: q.Get("outcome"), Text: q.Get("text")}
	path := "/tail.json" + queryOf("last", "50", "hook", d.Hook)
	for wait := time.Second; ; {
		body, err := c.link.stream(r.Context(), path)
		if s.send(c.lostText(err)) != nil {
			return
		}
		if err != nil {
			wait = min(2*wait, 8*time.Second)
		} else {
			wait = time.Second
			if c.entries(s, &d, body) != nil {
				return
			}
		}
		select {
		case <-time.After(wait):
		case <-r.Context().Done():
			return
		}
	}
}

// entries sends the entries of a tail that pass the filter, until it ends. What has come together is one message: a browser renders a
// hundred lines as fast as one. It returns an error of the browser.
func (c *Console) entries(s *stream, d *liveData, body io.ReadCloser) error {
	defer body.Close()
	var b bytes.Buffer
	for lines := bufio.NewReaderSize(body, maxTogether); ; {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return nil // the operator has ended, or this is none
		}
		var e history.Entry
		if json.Unmarshal(line, &e) == nil && d.keep(&e) && (e.Kind != history.Ended || e.Time.After(s.seen)) {
			if err := c.templates.ExecuteTemplate(&b, "entry", &e); err != nil {
				return err
			}
			if e.Kind == history.Ended {
				s.seen = e.Time
			}
		}
		if b.Len() == 0 || lines.Buffered() > 0 && b.Len() < maxTogether {
			continue
		}
		if err := s.send(b.Bytes()); err != nil {
			return err
		}
		b.Reset()
	}
}
