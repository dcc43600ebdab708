package kubeevent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// line is one Event: something that happened, once or several times. Its Note is from the first time: the API does not allow changes of
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
	// name is the name of the Event; empty before the first attempt to create it. exists reports that one has succeeded.
	name   string
	exists bool
	// notBefore is when it may be written again.
	notBefore time.Time
	sending   bool
}

// namespace is where an Event about the object is.
func (e *Event) namespace() string { return cmp.Or(e.Regarding.Namespace, "default") }

// due reports that the API server has not received the line as it is, and that it is not being sent.
func (l *line) due() bool { return !l.sending && l.count != l.reported }

// before is the order of lines that are due.
func (l *line) before(other *line) bool {
	return cmp.Or(l.notBefore.Compare(other.notBefore), cmp.Compare(l.number, other.number)) < 0
}

const (
	controller = "shell-operator"
	// noteLimit is the API's bound.
	noteLimit = 1024
)

func (l *line) series() *eventsv1.EventSeries {
	if l.count < 2 {
		return nil
	}
	return &eventsv1.EventSeries{Count: int32(l.count), LastObservedTime: metav1.NewMicroTime(l.last)}
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
	path := []string{"/apis/events.k8s.io/v1/namespaces", l.namespace(), "events"}
	again := l.name != ""
	if !l.exists {
		err := s.create(ctx, path, l)
		if !again || !apierrors.IsAlreadyExists(err) {
			l.exists = err == nil
			return err
		}
		l.exists = true // by an attempt whose answer has been lost
	}
	body, err := json.Marshal(map[string]*eventsv1.EventSeries{"series": l.series()})
	if err != nil {
		return err
	}
	return s.Client.Patch(types.MergePatchType).AbsPath(append(path, l.name)...).Body(body).Do(ctx).Error()
}

// create creates the Event of a line, in each attempt with the same name.
func (s *sender) create(ctx context.Context, path []string, l *line) error {
	about := &l.Regarding
	if about.UID == "" || about.APIVersion == "" {
		s.complete(ctx, about)
	}
	if l.name == "" {
		l.name = eventName(about.Name, about.Kind, time.Now())
	}
	body, err := json.Marshal(eventsv1.Event{
		TypeMeta:   metav1.TypeMeta{APIVersion: "events.k8s.io/v1", Kind: "Event"},
		ObjectMeta: metav1.ObjectMeta{Name: l.name, Namespace: l.namespace()},
		EventTime:  metav1.NewMicroTime(l.first), Series: l.series(), ReportingController: controller,
		ReportingInstance: cut(cmp.Or(s.Pod.Name, s.Instance), 128),
		Action:            l.Action, Reason: l.Reason, Note: cut(l.Note, noteLimit), Type: l.Type, Regarding: *about,
	})
	if err != nil {
		return err
	}
	return s.Client.Post().AbsPath(path...).SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error()
}

// eventName returns a name for an Event about an object. Names of some kinds, such as roles, cannot be part of it.
func eventName(object, kind string, now time.Time) string {
	name := fmt.Sprintf("%s.%x", object, now.UnixNano())
	if len(content.IsDNS1123Subdomain(name)) > 0 {
		name = fmt.Sprintf("%s.%x", strings.ToLower(kind), now.UnixNano())
	}
	return name
}

// complete reads the version and the uid of an object. Without the permission, Events have none.
func (s *sender) complete(ctx context.Context, r *Reference) {
	res, err := s.resolver.Resolve(ctx, r.APIVersion, r.Kind)
	if err != nil || res.Namespaced && r.Namespace == "" {
		return
	}
	r.APIVersion = res.GroupVersion().String()
	if r.UID != "" {
		return
	}
	text, err := kube.Send(ctx, s.Client.Get().AbsPath(append(res.Path(r.Namespace), r.Name)...))
	var object metav1.PartialObjectMetadata
	if err == nil && json.Unmarshal(text, &object) == nil {
		r.UID = object.UID
	}
}

func cut(text string, limit int) string {
	if len(text) > limit {
		return strings.ToValidUTF8(text[:limit], "")
	}
	return text
}
