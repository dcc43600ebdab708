package kube

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// One is an object to watch by name, or the few objects with a label. The watch of a name needs no permission to list, and none for other
// objects.
//
// It has no resource version: the API server sends the current state first, so nothing is missed between two requests but
// a deletion, and bookmarks are of no use. Clients that have to notice deletions read the object in Opened.
type One struct {
	Client rest.Interface
	// Path has the segments of the collection: "/api/v1/namespaces", "ns", "secrets".
	Path []string
	// Name is the name of the object, unless Labels is a selector.
	Name, Labels string
}

// Watch sends one watch request and returns when it has ended: nil if the server ends it. It calls opened, if set, when the API server has
// accepted it, and then changed with the JSON of the current state and of each later one, and with the last state of a deleted object.
func (o One) Watch(ctx context.Context, opened func(), changed func(deleted bool, object []byte)) error {
	request := o.Client.Get().AbsPath(o.Path...)
	if o.Labels != "" {
		request = request.Param("labelSelector", o.Labels)
	} else {
		request = request.Param("fieldSelector", "metadata.name="+o.Name)
	}
	const limit = 5 * 60
	seconds := limit + rand.N(limit)
	// The server ends the watch; the client's limit is for a connection that has died silently.
	limited, cancel := context.WithTimeout(ctx, time.Duration(seconds+30)*time.Second)
	defer cancel()
	body, err := request.Param("watch", "true").Param("timeoutSeconds", strconv.Itoa(seconds)).MaxRetries(0).
		SetHeader("Accept-Encoding", "identity").Stream(limited)
	if err != nil {
		return err
	}
	defer body.Close()
	if opened != nil {
		opened()
	}
	events := jsontext.NewDecoder(body, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		var event struct {
			Type   string         `json:"type"`
			Object jsontext.Value `json:"object"`
		}
		switch err := json.UnmarshalDecode(events, &event); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), err != nil && limited.Err() != nil && ctx.Err() == nil:
			return nil
		case errors.As(err, new(net.Error)), errors.Is(err, context.Canceled):
			return err
		case err != nil:
			return errors.New("the API server sent an event that cannot be decoded") // the error might quote a Secret
		}
		switch event.Type {
		case "ADDED", "MODIFIED":
			changed(false, event.Object)
		case "DELETED":
			changed(true, event.Object)
		case "ERROR":
			status := metav1.Status{Code: http.StatusInternalServerError}
			_ = json.Unmarshal(event.Object, &status, json.MatchCaseInsensitiveNames(true))
			Redact(&status)
			return apierrors.FromObject(&status)
		}
	}
}

// Backoff are the delays of WatchOne between two requests. Zero values get defaults.
type Backoff struct {
	// Min is the first delay, by default 1 s. It doubles up to Max, by default 1 min, until a watch lasts longer than a
	// minute.
	Min, Max time.Duration
}

// forbidden is the delay while the permission to watch is missing.
const forbidden = time.Minute

// WatchOne calls watch again whenever it returns, with back-off, until ctx ends. It calls closed after each return, with
// nil if the server has ended the watch as usual: then the client reads the object by itself until the next watch is open,
// and also where watching is forbidden.
func WatchOne(ctx context.Context, b Backoff, watch func(context.Context) error, closed func(err error)) {
	const stable = time.Minute
	b.Min, b.Max = cmp.Or(b.Min, time.Second), cmp.Or(b.Max, time.Minute)
	delay := b.Min
	for {
		start := time.Now()
		err := watch(ctx)
		if ctx.Err() != nil {
			return
		}
		closed(err)
		if time.Since(start) > stable {
			delay = b.Min
		}
		pause := delay/2 + rand.N(delay/2+1)
		if apierrors.IsForbidden(err) {
			pause = forbidden
		}
		delay = min(2*delay, b.Max)
		if !Wait(ctx, pause, nil) {
			return
		}
	}
}

// Wake sends on a channel for one token, unless there is one.
func Wake(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// Wait returns true when it receives from wake, which may be nil, or after a time; 0 means never. It returns false when ctx ends.
func Wait(ctx context.Context, after time.Duration, wake <-chan struct{}) bool {
	var late <-chan time.Time
	if after > 0 {
		timer := time.NewTimer(after)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-wake:
	case <-late:
	case <-ctx.Done():
		return false
	}
	return true
}
