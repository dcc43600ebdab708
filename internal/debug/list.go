package debug

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
)

// List shows an answer in JSON, a list or an object with one, as a table. The command of the route is then also that of its noun, unless
// the path has a name: "parked" is "parked list".
type List struct {
	// Empty is the text in place of a table without rows.
	Empty string
	// Every is how often a watched list is read again. Only runs are pushed by the operator: states, delays and ages change without an event.
	Every time.Duration

	// rest is the line below the table, empty for none. It may be nil.
	rest    func(answer []byte) string
	columns []string
	// wide are the columns of the wide form alone, aging those that change without an event.
	wide, aging []bool
	cells       func(answer []byte, now time.Time) ([][]string, error)
}

// column is a column of a List: its cell for an item. The first one is the name of the item.
type column[T any] struct {
	name        string
	cell        func(item *T, now time.Time) string
	wide, aging bool
}

// Intervals of watched lists. Those of sets and finalizers are read from the API server.
const (
	refreshed     = 2 * time.Second
	refreshedSlow = 10 * time.Second
)

func listOf[T any](empty string, every time.Duration, columns ...column[T]) *List {
	return listIn(empty, every, func(items *[]T) []T { return *items }, columns...)
}

// listIn is a list in an answer.
func listIn[A, T any](empty string, every time.Duration, in func(*A) []T, columns ...column[T]) *List {
	l := &List{Empty: empty, Every: every}
	for _, c := range columns {
		l.columns, l.wide, l.aging = append(l.columns, c.name), append(l.wide, c.wide), append(l.aging, c.aging)
	}
	l.cells = func(answer []byte, now time.Time) (rows [][]string, err error) {
		var all A
		if err := json.Unmarshal(answer, &all); err != nil {
			return nil, fmt.Errorf("the answer of the operator is no list: %w", err)
		}
		items := in(&all)
		for i := range items {
			row := make([]string, len(columns))
			for j, c := range columns {
				row[j] = c.cell(&items[i], now)
			}
			rows = append(rows, row)
		}
		return rows, nil
	}
	return l
}

// Table is a List with the items of an answer.
type Table struct {
	// Rows have the header first. Keys are the rows without the cells that change without an event.
	Rows [][]string
	Keys []string
	// Rest is a line below the rows; empty for none.
	Rest string
}

// Table returns the items of an answer.
func (l *List) Table(answer []byte, wide bool, now time.Time) (t Table, err error) {
	rows, err := l.cells(answer, now)
	if l.rest != nil && err == nil {
		t.Rest = l.rest(answer)
	}
	for _, row := range slices.Insert(rows, 0, l.columns) {
		var shown, key []string
		for i, cell := range row {
			if l.wide[i] && !wide {
				continue
			}
			shown = append(shown, cell)
			if !l.aging[i] {
				key = append(key, cell)
			}
		}
		t.Rows, t.Keys = append(t.Rows, shown), append(t.Keys, strings.Join(key, "\x00"))
	}
	return t, err
}

// Names are the distinct names of the items of an answer, in their order.
func (l *List) Names(answer []byte) (names []string, err error) {
	rows, err := l.cells(answer, time.Time{})
	for _, row := range rows {
		if !slices.Contains(names, row[0]) {
			names = append(names, row[0])
		}
	}
	return names, err
}

// some is a number, or a dash for none.
func some(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

// until is the time that is left, or a dash for none.
func until(left history.Duration) string {
	if left == 0 {
		return "-"
	}
	return "in " + short(time.Duration(left))
}

// since is the age of a time, or a dash for none.
func since(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return ago(now.Sub(t))
}
