package kubeevent

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// line is one Event: something that happened, once or several times.
type line struct {
	reason, kind string
	// note is that of the first time: the API does not allow changes of it.
	note        string
	first, last time.Time
	// count is the number of occurrences, reported the number that the API server has received.
	count, reported int
	// name is that of the Event; empty until there is one.
	name string
	// notBefore is when it may be written again.
	notBefore time.Time
}

// add counts an occurrence. After a long time it begins a new Event.
func (l *line) add(now time.Time, note string) {
	if l.count > 0 && now.Sub(l.last) > window {
		*l = line{reason: l.reason, kind: l.kind}
	}
	if l.count == 0 {
		l.first, l.note = now, note
	}
	l.count++
	l.last = now
}

// These are Events of events.k8s.io/v1, as far as they matter here.
type (
	eventObject struct {
		APIVersion          string    `json:"apiVersion"`
		Kind                string    `json:"kind"`
		Metadata            metadata  `json:"metadata"`
		EventTime           string    `json:"eventTime"`
		Series              *series   `json:"series,omitempty"`
		ReportingController string    `json:"reportingController"`
		ReportingInstance   string    `json:"reportingInstance"`
		Action              string    `json:"action"`
		Reason              string    `json:"reason"`
		Regarding           reference `json:"regarding"`
		Note                string    `json:"note"`
		Type                string    `json:"type"`
	}
	metadata struct {
		Name      string    `json:"name"`
		Namespace string    `json:"namespace"`
		UID       types.UID `json:"uid,omitempty"`
	}
	series struct {
		Count            int    `json:"count"`
		LastObservedTime string `json:"lastObservedTime"`
	}
	reference struct {
		APIVersion string    `json:"apiVersion"`
		Kind       string    `json:"kind"`
		Namespace  string    `json:"namespace"`
		Name       string    `json:"name"`
		UID        types.UID `json:"uid,omitempty"`
	}
)

const (
	controller = "shell-operator"
	micro      = "2006-01-02T15:04:05.000000Z07:00"
	// noteLimit is what the API allows.
	noteLimit = 1024
)

func (l *line) series() *series {
	if l.count < 2 {
		return nil
	}
	return &series{l.count, l.last.Format(micro)}
}

// sender writes Events. Only Run uses it.
type sender struct {
	opts Options
	// uid is that of the Pod; kubectl describe finds Events by it. It is read once.
	uid   types.UID
	asked bool
}

// send creates the Event of a line, or brings it up to date.
func (s *sender) send(ctx context.Context, l *line) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	path := []string{"/apis/events.k8s.io/v1/namespaces", s.opts.Namespace, "events"}
	if l.name != "" {
		body, err := json.Marshal(map[string]*series{"series": l.series()})
		if err != nil {
			return err
		}
		return s.opts.Client.Patch(types.MergePatchType).AbsPath(append(path, l.name)...).Body(body).Do(ctx).Error()
	}
	s.findPod(ctx)
	name := fmt.Sprintf("%s.%x", s.opts.Pod, time.Now().UnixNano())
	body, err := json.Marshal(eventObject{
		APIVersion: "events.k8s.io/v1", Kind: "Event", Metadata: metadata{Name: name, Namespace: s.opts.Namespace},
		EventTime: l.first.Format(micro), Series: l.series(), ReportingController: controller, ReportingInstance: cut(s.opts.Pod, 128),
		Action: "RunHook", Reason: l.reason, Note: cut(l.note, noteLimit), Type: l.kind,
		Regarding: reference{APIVersion: "v1", Kind: "Pod", Namespace: s.opts.Namespace, Name: s.opts.Pod, UID: s.uid},
	})
	if err != nil {
		return err
	}
	err = s.opts.Client.Post().AbsPath(path...).SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error()
	if err == nil {
		l.name = name
	}
	return err
}

func newSender(o Options) *sender {
	return &sender{opts: o, uid: o.UID, asked: o.UID != ""}
}

// findPod reads the Pod's uid. Without the permission, Events have none.
func (s *sender) findPod(ctx context.Context) {
	if s.asked {
		return
	}
	text, err := s.opts.Client.Get().AbsPath("/api/v1/namespaces", s.opts.Namespace, "pods", s.opts.Pod).Do(ctx).Raw()
	s.asked = ctx.Err() == nil
	var pod struct{ Metadata metadata }
	if err == nil && json.Unmarshal(text, &pod) == nil {
		s.uid = pod.Metadata.UID
	}
}

func cut(text string, limit int) string {
	if len(text) > limit {
		return strings.ToValidUTF8(text[:limit], "")
	}
	return text
}
