package console

import (
	"net/http"

	"github.com/shell-operator/shell-operator/internal/debug"
)

func (c *Console) parked(r *http.Request) (page, error) {
	var all []debug.ParkedTask
	err := c.link.get(r.Context(), "/parked/list.json", &all)
	return page{Title: "Parked tasks", content: "parked", Data: all}, err
}

func (c *Console) sets(r *http.Request) (page, error) {
	var all []debug.Set
	err := c.link.get(r.Context(), "/sets/list.json", &all)
	return page{Title: "Sets of objects", content: "sets", Data: all, Still: true}, err
}

func (c *Console) set(r *http.Request) (page, error) {
	id := r.PathValue("id")
	var one debug.ShownSet
	err := c.link.get(r.Context(), "/sets/"+segments(id)+".json", &one)
	return page{Title: "Set " + plain(id), content: "set", Data: one, Still: true}, err
}

func (c *Console) finalizers(r *http.Request) (page, error) {
	var all []debug.Finalizer
	err := c.link.get(r.Context(), "/finalizers/list.json", &all)
	return page{Title: "Finalizers", content: "finalizers", Data: all, Still: true}, err
}
