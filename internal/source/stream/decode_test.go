package stream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/tools/txtar"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// samplePod is an object of 2 KiB, as the API server sends them: a third of it is managedFields.
func samplePod(i int) string {
	return fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-%05d","generateName":"web-","namespace":"shop",`+
		`"uid":"6f0d3b3e-5d53-4bd4-9f0e-%012d","resourceVersion":"%d",`+
		`"creationTimestamp":"2026-01-02T03:04:05Z","labels":{"app":"web","pod-template-hash":"7c5ddbdf54"},`+
		`"annotations":{"checksum/config":"5e884898da28047151d0e56f8dc62927","note":"line 1\nline 2 \"quoted\""},`+
		`"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-7c5ddbdf54","uid":"0b4d9c53-9d1e-4e58-bf13-3a1f1b6b7d8e",`+
		`"controller":true,"blockOwnerDeletion":true}],`+
		`"managedFields":[{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"2026-01-02T03:04:05Z",`+
		`"fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:annotations":{".":{},"f:checksum/config":{}},"f:generateName":{},`+
		`"f:labels":{".":{},"f:app":{},"f:pod-template-hash":{}},"f:ownerReferences":{".":{},`+
		`"k:{\"uid\":\"0b4d9c53-9d1e-4e58-bf13-3a1f1b6b7d8e\"}":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:image":{},`+
		`"f:imagePullPolicy":{},"f:name":{},"f:resources":{}}}}}}]},`+
		`"spec":{"containers":[{"name":"web","image":"registry.example.com/web:1.27","ports":[{"containerPort":8080,"protocol":"TCP"}],`+
		`"resources":{"limits":{"memory":"128Mi"},"requests":{"cpu":"100m","memory":"64Mi"}},"env":[{"name":"POD_NAME",`+
		`"valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.name"}}},{"name":"MODE","value":"production"}],`+
		`"volumeMounts":[{"name":"kube-api-access-x7k2p","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}],`+
		`"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}],`+
		`"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"default",`+
		`"nodeName":"node-1","schedulerName":"default-scheduler"},`+
		`"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-02T03:04:06Z"}],`+
		`"hostIP":"10.0.0.1","podIP":"10.1.0.1","qosClass":"Burstable"}}`, i, i, 1000+i)
}

func sampleList(n int) string {
	items := make([]string, n)
	for i := range items {
		items[i] = samplePod(i)
	}
	return `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"2000"},"items":[` + strings.Join(items, ",") + `]}`
}

func sampleEvents(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"type":"MODIFIED","object":%s}`+"\n", samplePod(i))
	}
	return b.String()
}

func TestDecodeList(t *testing.T) {
	const list = `{"kind":"ThingList","apiVersion":"example.com/v1","metadata":
		{"resourceVersion":"12","continue":"more","remainingItemCount":3},"extra":[{}],"items":[
		{"metadata":{"name":"a","namespace":"x","resourceVersion":"1"}},
		{"apiVersion":"example.com/v1","kind":"Own","metadata":{"name":"b","resourceVersion":"2"}}]}`
	// A slow network hands out a byte at a time.
	got, err := decodeList(iotest.OneByteReader(strings.NewReader(list)), digesting(true))
	if err != nil {
		t.Fatal(err)
	}
	if got.ResourceVersion != "12" || got.Continue != "more" || got.RemainingItemCount == nil || *got.RemainingItemCount != 3 {
		t.Errorf("metadata is %+v", got.ListMeta)
	}
	var items []string
	for _, item := range got.Items {
		o := item.(*arrival)
		items = append(items, fmt.Sprintf("%s %s/%s@%s %s", o.Kind, o.Namespace, o.Name, o.ResourceVersion, o.JSON))
	}
	want := []string{
		`Thing x/a@1 {"kind":"Thing","apiVersion":"example.com/v1","metadata":{"name":"a","namespace":"x","resourceVersion":"1"}}`,
		`Own /b@2 {"apiVersion":"example.com/v1","kind":"Own","metadata":{"name":"b","resourceVersion":"2"}}`,
	}
	if strings.Join(items, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(items, "\n"), strings.Join(want, "\n"))
	}
}

func TestDecodeListOfNothing(t *testing.T) {
	for _, list := range []string{`{}`, `{"items":null}`, `{"kind":"PodList","metadata":{},"items":[]}`, `{"metadata":null}`} {
		if got, err := decodeList(strings.NewReader(list), digesting(true)); err != nil || len(got.Items) != 0 {
			t.Errorf("%s: %v, %v", list, got, err)
		}
	}
}

// A truncated list is rejected: its missing objects would look deleted.
func TestDecodeListCutOff(t *testing.T) {
	list := sampleList(2)
	for end := range len(list) {
		if _, err := decodeList(strings.NewReader(list[:end]), digesting(false)); err == nil {
			t.Fatalf("the first %d of %d bytes were accepted as a list", end, len(list))
		}
	}
	broken := errors.New("connection reset by peer")
	if _, err := decodeList(io.MultiReader(strings.NewReader(list[:len(list)-3]), iotest.ErrReader(broken)), digesting(false)); !errors.Is(err,
		broken) {
		t.Errorf("got %v, want what went wrong", err)
	}
}

func TestDecodeListThatIsNone(t *testing.T) {
	for _, text := range []string{``, `[]`, `null`, `"list"`, `{"items":{"a":1}}`, `{"items":[1]}`, `{"items":7}`,
		`{"items":[{"metadata":[]}]}`} {
		if got, err := decodeList(strings.NewReader(text), digesting(true)); err == nil {
			t.Errorf("%s was accepted: %d items", text, len(got.Items))
		}
	}
}

// readStream returns what comes out of a stream, one line an event.
func readStream(t *testing.T, text string) []string {
	t.Helper()
	s := newEventStream(io.NopCloser(strings.NewReader(text)), digesting(false)(), func(error, bool) {})
	defer s.Stop()
	var got []string
	for ev := range s.ResultChan() {
		o, ok := ev.Object.(*arrival)
		if !ok {
			got = append(got, fmt.Sprintf("%s %v", ev.Type, apierrors.FromObject(ev.Object)))
			continue
		}
		got = append(got, fmt.Sprintf("%s %s %s/%s@%s %s", ev.Type, o.Kind, o.Namespace, o.Name, o.ResourceVersion, o.JSON))
	}
	return got
}

func TestDecodeStream(t *testing.T) {
	golden.Wants(t, "testdata/streams.txtar", func(t *testing.T, f txtar.File) string {
		var events strings.Builder
		for _, event := range readStream(t, string(f.Data)) {
			fmt.Fprintln(&events, event)
		}
		return events.String()
	})
}

func TestExpiredDiffersFromOtherErrors(t *testing.T) {
	s := newEventStream(
		io.NopCloser(strings.NewReader(`{"type":"ERROR","object":{"kind":"Status","status":"Failure","reason":"Expired","code":410,`+
			`"details":{"retryAfterSeconds":2}}}`)), digesting(true)(), func(error, bool) {})
	defer s.Stop()
	ev := <-s.ResultChan()
	if err := apierrors.FromObject(ev.Object); ev.Type != watch.Error || !apierrors.IsResourceExpired(err) {
		t.Errorf("got %s %v", ev.Type, err)
	}
}

// Errors that end a watch after its start are counted: an error instead of an event, and a truncated line. The end of a
// watch at its timeout is not.
func TestBrokenWatchesAreCounted(t *testing.T) {
	const event = `{"type":"ADDED","object":{"kind":"Thing","metadata":{"name":"a"}}}`
	for text, want := range map[string]string{
		event: "", event + event + "\n": "",
		event + `{"type":"ERROR","object":{"kind":"Status","status":"Failure","reason":"Expired","code":410}}`:       "expired",
		`{"type":"ERROR","object":{"kind":"Status","status":"Failure","reason":"InternalError","code":500}}` + event: "fail",
		event[:40]: "unexpected-eof", event + `{"type":`: "unexpected-eof",
	} {
		var reasons []string
		s := newStream(nil, Scope{}, func(reason string) { reasons = append(reasons, reason) })
		events := newEventStream(io.NopCloser(strings.NewReader(text)), digesting(true)(), func(err error, _ bool) { s.failed(reasonOf(err)) })
		for range events.ResultChan() { // until it ends
		}
		events.Stop()
		s.stop()
		if got := strings.Join(reasons, " "); got != want {
			t.Errorf("%s: counted %q, want %q", text, got, want)
		}
	}
}

// closeCounter is a body that blocks until it is closed.
type closeCounter struct {
	io.Reader
	pipe   *io.PipeReader
	closed int
}

func (c *closeCounter) Close() error {
	c.closed++
	return c.pipe.Close()
}

// Stop ends the goroutine of a stream without a reader; goleak checks it.
func TestStreamStops(t *testing.T) {
	pipe, _ := io.Pipe()
	body := &closeCounter{Reader: io.MultiReader(strings.NewReader(sampleEvents(40)), pipe), pipe: pipe}
	s := newEventStream(body, digesting(true)(), func(error, bool) {})
	<-s.ResultChan()
	s.Stop()
	s.Stop()
	for range s.ResultChan() { // closed in the end
	}
	if body.closed != 1 {
		t.Errorf("the body was closed %d times", body.closed)
	}
}

func FuzzDecodeList(f *testing.F) {
	f.Add([]byte(sampleList(2)))
	f.Add([]byte(`{"kind":"ThingList","apiVersion":"v1","items":[{}, {"metadata":{"name":"a"}}]}`))
	f.Add([]byte(`{"items":null,"metadata":{"continue":"x"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := decodeList(bytes.NewReader(text), digesting(false))
		if err != nil {
			return
		}
		for _, item := range list.Items {
			if o := item.(*arrival); !bytes.HasPrefix(o.JSON, []byte("{")) || !bytes.HasSuffix(o.JSON, []byte("}")) {
				t.Errorf("an item is %q", o.JSON)
			}
		}
	})
}

func FuzzDecodeStream(f *testing.F) {
	f.Add([]byte(sampleEvents(2)))
	f.Add([]byte(`{"type":"ERROR","object":{"kind":"Status","code":410}}{"object":{},"type":"ADDED"}`))
	f.Add([]byte(`{"type":"BOOKMARK"}{"type":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s := newEventStream(io.NopCloser(bytes.NewReader(text)), digesting(false)(), func(error, bool) {})
		defer s.Stop()
		for range s.ResultChan() {
		}
	})
}

// digesting makes digesters that keep everything.
func digesting(keepManagedFields bool) func() *digester {
	subs := []*Subscription{{Consumer: &eye{json: true}}}
	return func() *digester {
		return &digester{indexer: newIndexer(keepManagedFields), subs: func(uint64) []*Subscription { return subs }}
	}
}
