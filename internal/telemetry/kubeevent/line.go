package kubeevent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// line is one Event: something that happened, once or several times. Its Note is that of the first time: the API does not allow changes of
// it.
type line struct {
	Event
	// hook has requested it; empty for the operator's own.
	hook        string
	first, last time.Time
	// count is the number of occurrences, reported the number that the API server has received.
	count, reported int
	// number counts all Events so far.
	number int
	// name is that of the Event; empty until there is one.
	name string
	// notBefore is when it may be written again.
	notBefore time.Time
	sending   bool
	// index is that in the heap of the due ones, or -1.
	index int
}

// namespace is where an Event about the object is.
func (e *Event) namespace() string { return cmp.Or(e.Regarding.Namespace, "default") }

// byTime is a heap.
type byTime []*line

func (b byTime) Len() int { return len(b) }

func (b byTime) Less(i, j int) bool {
	return cmp.Or(b[i].notBefore.Compare(b[j].notBefore), cmp.Compare(b[i].number, b[j].number)) < 0
}

func (b byTime) Swap(i, j int) {
	b[i], b[j] = b[j], b[i]
	b[i].index, b[j].index = i, j
}

func (b *byTime) Push(x any) {
	l := x.(*line)
	l.index = len(*b)
	*b = append(*b, l)
}

func (b *byTime) Pop() any {
	last := len(*b) - 1
	l := (*b)[last]
	(*b)[last] = nil
	*b, l.index = (*b)[:last], -1
	return l
}

// These are Events of events.k8s.io/v1, as far as they matter here.
type (
	eventObject struct {
		APIVersion          string      `json:"apiVersion"`
		Kind                string      `json:"kind"`
		Metadata            metadata    `json:"metadata"`
		EventTime           string      `json:"eventTime"`
		Series              *occurrence `json:"series,omitempty"`
		ReportingController string      `json:"reportingController"`
		ReportingInstance   string      `json:"reportingInstance"`
		Action              string      `json:"action"`
		Reason              string      `json:"reason"`
		Regarding           reference   `json:"regarding"`
		Note                string      `json:"note"`
		Type                string      `json:"type"`
	}
	metadata struct {
		Name      string    `json:"name"`
		Namespace string    `json:"namespace"`
		UID       types.UID `json:"uid,omitempty"`
	}
	occurrence struct {
		Count            int    `json:"count"`
		LastObservedTime string `json:"lastObservedTime"`
	}
	reference struct {
		APIVersion string    `json:"apiVersion"`
		Kind       string    `json:"kind"`
		Namespace  string    `json:"namespace,omitempty"`
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

func (l *line) series() *occurrence {
	if l.count < 2 {
		return nil
	}
	return &occurrence{l.count, l.last.Format(micro)}
}

// sender writes Events.
type sender struct {
	Options
	resolver *kube.Resolver
}

func newSender(o Options) *sender { return &sender{o, kube.NewResolver(o.Client)} }

// send creates the Event of a line, or brings it up to date.
func (s *sender) send(ctx context.Context, l *line) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	client := s.Client
	if l.As.Client != nil {
		client = l.As.Client
	}
	path := []string{"/apis/events.k8s.io/v1/namespaces", l.namespace(), "events"}
	if l.name != "" {
		body, err := json.Marshal(map[string]*occurrence{"series": l.series()})
		if err != nil {
			return err
		}
		return client.Patch(types.MergePatchType).AbsPath(append(path, l.name)...).Body(body).Do(ctx).Error()
	}
	about := &l.Regarding
	if about.UID == "" || about.APIVersion == "" {
		s.complete(ctx, client, about)
	}
	name := eventName(about.Name, about.Kind, time.Now())
	body, err := json.Marshal(eventObject{
		APIVersion: "events.k8s.io/v1", Kind: "Event", Metadata: metadata{Name: name, Namespace: l.namespace()},
		EventTime: l.first.Format(micro), Series: l.series(), ReportingController: controller,
		ReportingInstance: cut(cmp.Or(s.Pod.Name, s.Instance), 128),
		Action:            l.Action, Reason: l.Reason, Note: cut(l.Note, noteLimit), Type: l.Type,
		Regarding: reference{about.APIVersion, about.Kind, about.Namespace, about.Name, about.UID},
	})
	if err != nil {
		return err
	}
	err = client.Post().AbsPath(path...).SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error()
	if err == nil {
		l.name = name
	}
	return err
}

// eventName is that of an Event about an object. Names of some kinds, such as roles, cannot be part of it.
func eventName(object, kind string, now time.Time) string {
	name := fmt.Sprintf("%s.%x", object, now.UnixNano())
	if len(content.IsDNS1123Subdomain(name)) > 0 {
		name = fmt.Sprintf("%s.%x", strings.ToLower(kind), now.UnixNano())
	}
	return name
}

// complete reads the version and the uid of an object. Without the permission, Events have none.
func (s *sender) complete(ctx context.Context, client rest.Interface, r *Reference) {
	res, err := s.resolver.Resolve(ctx, r.APIVersion, r.Kind)
	if err != nil || res.Namespaced && r.Namespace == "" {
		return
	}
	r.APIVersion = res.GroupVersion().String()
	if r.UID != "" {
		return
	}
	text, err := kube.Send(ctx, client.Get().AbsPath(append(res.Path(r.Namespace), r.Name)...))
	var object struct{ Metadata metadata }
	if err == nil && json.Unmarshal(text, &object) == nil {
		r.UID = object.Metadata.UID
	}
}

func cut(text string, limit int) string {
	if len(text) > limit {
		return strings.ToValidUTF8(text[:limit], "")
	}
	return text
}
