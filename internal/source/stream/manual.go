package stream

import (
	"context"
	"io"
)

// Manual is a stream whose caller provides lists and changes in place of an API server, for simulations and tests.
type Manual struct {
	feed
	// begun: the next list has begun. asked are the consumers of the last late list.
	begun bool
	asked []*Subscription
}

func NewManual(keepManagedFields bool) *Manual {
	s := newStream(nil, Scope{KeepManagedFields: keepManagedFields}, func(string) {})
	return &Manual{feed: feed{stream: s}}
}

// BeginList begins a list for the consumers so far.
func (m *Manual) BeginList() {
	m.listing()
	m.serving()
	m.begun = true
}

// DeliverList delivers a complete list, in the format of the API server.
func (m *Manual) DeliverList(ctx context.Context, body io.Reader) error {
	if !m.begun {
		m.BeginList()
	}
	m.begun, m.ctx = false, ctx
	list, err := m.decode(ctx, body, m.listed)
	if err == nil && ctx.Err() == nil {
		m.replace(list.arrivals(), ParseVersion(list.ResourceVersion))
	}
	return err
}

func (m *Manual) decode(ctx context.Context, body io.Reader, subs []*Subscription) (*objectList, error) {
	return decodeList(body, func() *digester { return m.newDigester(ctx, func(uint64) []*Subscription { return subs }) })
}

// Ask begins a list for the consumers that joined after the last one, and returns their number and its least version.
func (m *Manual) Ask() (consumers int, version uint64) {
	m.asked = m.late()
	at, _ := m.begin(m.asked)
	return len(m.asked), at
}

// DeliverLate delivers the list of Ask.
func (m *Manual) DeliverLate(ctx context.Context, body io.Reader) error {
	list, err := m.decode(ctx, body, m.asked)
	if err == nil {
		m.merge(ctx, m.asked, list.arrivals(), ParseVersion(list.ResourceVersion))
	}
	return err
}

// DeliverChange delivers an object that is new or different, or was deleted.
func (m *Manual) DeliverChange(ctx context.Context, object []byte, deleted bool) error {
	m.ctx = ctx
	a, err := m.newDigester(ctx, m.reading).digest(object, deleted)
	if err != nil {
		return err
	}
	return m.changed(a, deleted)
}

// Wait returns when the consumers have processed all deliveries.
func (m *Manual) Wait() { m.running.Wait() }
