package debug

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/shell-operator/shell-operator/internal/debug/history"
)

// tail streams entries until the client disconnects or the server ends.
func (t *runTopic) tail(w http.ResponseWriter, r request) error {
	name, err := t.hooks.inQuery(r)
	if err != nil {
		return err
	}
	last := 0
	if text := r.URL.Query().Get("last"); text != "" {
		if last, err = strconv.Atoi(text); err != nil || last < 0 {
			return refuse(http.StatusBadRequest, "last: %q is no number of runs", text).hint("write for instance 50")
		}
	}
	follower := t.runs.Follow(name, last)
	defer follower.Close()
	contentType := contentTypes[r.format]
	if r.format == jsonFormat {
		contentType = "application/x-ndjson"
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w)
	if err := flush.Flush(); err != nil { // the client knows that it is subscribed
		return err
	}
	for {
		select {
		case <-r.Context().Done():
			return nil
		case <-follower.More():
		}
		_ = flush.SetWriteDeadline(time.Now().Add(unread))
		for _, e := range follower.Take() {
			if err := writeEntry(w, r.format, e); err != nil {
				return err
			}
		}
		if err := flush.Flush(); err != nil {
			return err
		}
	}
}

func writeEntry(w http.ResponseWriter, f format, e history.Entry) error {
	switch f {
	case jsonFormat:
		return json.NewEncoder(w).Encode(e)
	case yamlFormat: // a document for each, so that programs can read it as it comes
		text, err := yaml.Marshal(e)
		if err == nil {
			_, err = fmt.Fprintf(w, "---\n%s", text)
		}
		return err
	}
	text := fmt.Sprintf("%s %s %s: %s", e.Hook, e.Run, e.Kind, e.Text)
	switch e.Kind {
	case history.Lost:
		text = fmt.Sprintf("… %s lost: they came faster than they were read", Count(e.Count, "line"))
	case history.Printed:
		text = fmt.Sprintf("%s %s | %s", e.Hook, e.Run, e.Text)
	}
	_, err := fmt.Fprintln(w, e.Time.Format("15:04:05.000"), text)
	return err
}
