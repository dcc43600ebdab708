package debug

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
)

// Table is objects as rows. The tables of commands, their names, and the lists of pages are made of it; JSON is the objects themselves.
type Table struct {
	// About is what the objects are: "parked tasks".
	About string
	// Columns are the cells of no object. The first one is the name of an object.
	Columns []Cell
	Rows    [][]Cell
	// Rest is a line below the rows; empty for none.
	Rest string
}

// Cell is what an object has in a column.
type Cell struct {
	Column string
	Kind   Kind
	// Value is a text, a number, a time, a duration or []Action.
	Value any
	// Wide columns are not in the narrow table of a command. Hidden ones are not on pages, either.
	Wide, Hidden bool
}

// Kind is what a column is for: how it is shown, and what pages link it to.
type Kind string

const (
	asText   Kind = "text"
	asNumber Kind = "number"
	asState  Kind = "state"
	asFault  Kind = "fault"
	// asHook and the next ones are names of others; asRun may have more words after the id.
	asHook  Kind = "hook"
	asQueue Kind = "queue"
	asRun   Kind = "run"
	asSet   Kind = "set"
	asKey   Kind = "key"
	// asObject is Kind/namespace/name.
	asObject Kind = "object"
	// asTime is a time, asAge how long ago it was, or how long something lasts. asTook is an exact duration, asLeft one until something.
	asTime Kind = "time"
	asAge  Kind = "age"
	asTook Kind = "took"
	asLeft Kind = "left"
	// asActions are what a person can do with the object, on pages.
	asActions Kind = "actions"
)

func (k Kind) of(column string, value any) Cell { return Cell{Column: column, Kind: k, Value: value} }
func (k Kind) wide(column string, value any) Cell {
	return Cell{Column: column, Kind: k, Value: value, Wide: true}
}
func (k Kind) hidden(column string, value any) Cell {
	return Cell{Column: column, Kind: k, Value: value, Wide: true, Hidden: true}
}

// Action is a route that changes something, with its form.
type Action struct {
	// Name is the path of the route without the name in it: "queue/retry". The form has it as "name".
	Name string
	Form url.Values
	// Ask is a field of the form that the person fills in; empty for none.
	Ask string
}

// acts is an action with pairs of fields and values.
func acts(name string, fields ...string) Action {
	a := Action{Name: name, Form: url.Values{}}
	for pair := range slices.Chunk(fields, 2) {
		a.Form.Set(pair[0], pair[1])
	}
	return a
}

// Text is the cell on one line; a dash for none.
func (c *Cell) Text(now time.Time) string {
	text := ""
	switch v := c.Value.(type) {
	case time.Time:
		switch {
		case v.IsZero():
		case c.Kind == asAge:
			text = ago(now.Sub(v))
		default:
			text = v.Format(time.RFC3339)
		}
	case history.Duration:
		switch {
		case c.Kind == asAge:
			text = ago(time.Duration(v))
		case c.Kind == asLeft && v == 0:
		case c.Kind == asLeft:
			text = "in " + short(time.Duration(v))
		default:
			text = v.String()
		}
	case nil:
	case []Action:
		text = strings.Repeat("…", len(v))
	default:
		text = OneLine(fmt.Sprint(v))
	}
	if text == "" {
		return "-"
	}
	return text
}

// some is a number, and nothing for 0.
func some(n int) any {
	if n == 0 {
		return nil
	}
	return n
}

// TableOf are objects as rows.
func TableOf[T any](about string, objects []T, cells func(*T) []Cell) Table {
	t := Table{About: about, Columns: cells(new(T))}
	for i := range objects {
		t.Rows = append(t.Rows, cells(&objects[i]))
	}
	return t
}

// Without are the rows without a column.
func (t Table) Without(column string) Table {
	is := func(c Cell) bool { return c.Column == column }
	t.Columns = slices.DeleteFunc(t.Columns, is)
	for i := range t.Rows {
		t.Rows[i] = slices.DeleteFunc(t.Rows[i], is)
	}
	return t
}

// Filled are the rows without columns that have nothing in any of them.
func (t Table) Filled(now time.Time) Table {
	for _, column := range slices.Clone(t.Columns) {
		has := func(row []Cell) bool {
			return slices.ContainsFunc(row, func(c Cell) bool { return c.Column == column.Column && c.Text(now) != "-" })
		}
		if len(t.Rows) > 0 && !slices.ContainsFunc(t.Rows, has) {
			t = t.Without(column.Column)
		}
	}
	return t
}

// Texts are the lines of the table with the header first.
func (t *Table) Texts(wide bool, now time.Time) (lines [][]string) {
	for i, row := range slices.Insert(slices.Clone(t.Rows), 0, t.Columns) {
		var line []string
		for j := range row {
			c := &row[j]
			if c.Wide && !wide || c.Kind == asActions {
				continue
			}
			text := c.Column
			if i > 0 {
				text = c.Text(now)
			}
			line = append(line, text)
		}
		lines = append(lines, line)
	}
	return lines
}

// Names are the distinct names of the objects, in their order.
func (t *Table) Names() (names []string) {
	for _, row := range t.Rows {
		if name := row[0].Text(time.Time{}); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// List makes a Table of an answer in JSON. The noun of the command alone then lists, too, unless the path has a name: "parked" is
// "parked list".
type List struct {
	// Every is how often a watched list is read again. Only runs are pushed by the operator: states, delays and ages change without an event.
	Every time.Duration
	table func(answer []byte) (Table, error)
}

// Table is an answer as rows.
func (l *List) Table(answer []byte) (Table, error) { return l.table(answer) }

// Intervals of watched lists. Those of sets and finalizers are read from the API server.
const (
	refreshed     = 2 * time.Second
	refreshedSlow = 10 * time.Second
)

// listOf is a list of objects.
func listOf[T any](about string, every time.Duration, cells func(*T) []Cell) *List {
	return listIn(every, func(objects *[]T) Table { return TableOf(about, *objects, cells) })
}

// listIn is a list in an answer.
func listIn[A any](every time.Duration, table func(*A) Table) *List {
	return &List{every, func(answer []byte) (Table, error) {
		var all A
		if err := json.Unmarshal(answer, &all); err != nil {
			return Table{}, fmt.Errorf("the answer of the operator is no list: %w", err)
		}
		return table(&all), nil
	}}
}
