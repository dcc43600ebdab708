package watch

import (
	"context"
	"fmt"
	"io"
)

// manual is a stream whose caller provides lists and changes in place of an API server, for simulations and tests.
type manual struct {
	feed
	// begun: the next list has begun. asked are the consumers of the last late list.
	begun bool
	asked []*subscription
}

func newManual(keepManagedFields bool) *manual {
	s := newStream(nil, scope{keepManagedFields: keepManagedFields}, func(string) {})
	return &manual{feed: feed{stream: s}}
}

// beginList begins a list for the consumers so far.
func (m *manual) beginList() {
	m.listing()
	m.serving()
	m.begun = true
}

// deliverList delivers a complete list, in the format of the API server.
func (m *manual) deliverList(ctx context.Context, body io.Reader) error {
	if !m.begun {
		m.beginList()
	}
	m.begun, m.ctx = false, ctx
	list, err := m.read(ctx, body, m.listed)
	if err != nil {
		return err
	}
	objects := make([]any, len(list.Items))
	for i, o := range list.Items {
		objects[i] = o
	}
	return m.Replace(objects, list.ResourceVersion)
}

func (m *manual) read(ctx context.Context, body io.Reader, subs []*subscription) (*objectList, error) {
	return decodeList(body, func() *digester { return m.newDigester(ctx, func(uint64) []*subscription { return subs }) })
}

// ask begins a list for the consumers that joined after the last one, and returns its least version.
func (m *manual) ask() string {
	m.asked = m.late()
	at, _ := m.stream.begin(m.asked)
	return fmt.Sprintf("a list for %d at version %d", len(m.asked), at)
}

// deliverLate delivers the list of ask.
func (m *manual) deliverLate(ctx context.Context, body io.Reader) error {
	list, err := m.read(ctx, body, m.asked)
	if err != nil {
		return err
	}
	late := make([]*arrival, len(list.Items))
	for i, o := range list.Items {
		late[i] = o.(*arrival)
	}
	m.merge(ctx, m.asked, late, version(list.ResourceVersion))
	return nil
}

// deliverChange delivers an object that is new or different, or was deleted.
func (m *manual) deliverChange(ctx context.Context, object []byte, deleted bool) error {
	m.ctx = ctx
	a, err := m.newDigester(ctx, m.reading).digest(object, deleted)
	if err != nil {
		return err
	}
	return m.changed(a, deleted)
}

// wait returns when the consumers have processed all deliveries.
func (m *manual) wait() { m.running.Wait() }
